import { act, type useShown } from "./shown"
type Props = { shown: ReturnType<typeof useShown>; of: string }
const Act = (props: { name: string; can: unknown; body?: object; sign?: string }) => <button disabled={!props.can}
  aria-label={props.name} onClick={() => act(props.body ? "switch" : props.name.toLowerCase(), props.body)}>
  {props.sign ?? props.name}</button>
export const Acts = ({ shown, error }: Omit<Props, "of"> & { error?: Error }) => <p><Act name="Undo" can={shown.canUndo} />{" "}
  <Act name="Redo" can={shown.canRedo} /> <Act name="Stop" can={shown.isRunning} /> <b role="alert">{error?.message ?? shown.error}</b></p>
export function Siblings({ shown, of }: Props) {
  const { at, ids } = shown.siblings[of] ?? { at: 0, ids: [] }, [back, next] = [ids[at - 1], ids[at + 1]]
  return ids.length > 0 && <> <Act name="Previous" sign="‹" can={back} body={{ messageId: back }} /> {at + 1}/{ids.length}
    {" "}<Act name="Next" sign="›" can={next} body={{ messageId: next }} /></>
}

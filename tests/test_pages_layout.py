"""Where the states of a tree stand in its drawing."""

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from conversation_state.pages._layout import (
    MAX_LANES,
    Fold,
    GraphNode,
    fold_runs,
    lay_out,
)
from conversation_state.pages._markup import Words
from conversation_state.pages._trees import draw_tree, format_tree


@st.composite
def graphs(draw):
    """States that grew from one or two earlier ones, oldest first."""
    nodes: list[GraphNode] = []
    size = draw(st.integers(0, 25))
    for number in range(size):
        parents: tuple[int, ...] = ()
        if number:
            # Mostly the one before, so that there are runs.
            last = st.just(number - 1)
            some = st.lists(last | st.integers(0, number - 1), max_size=2, unique=True)
            parents = tuple(draw(st.tuples(last) | some))

        nodes.append(
            GraphNode(
                key=number,
                parents=parents,
                title=f"state {number}",
                labels=("label",) if draw(st.integers(0, 5)) == 0 else (),
            )
        )

    if nodes and draw(st.booleans()):
        at = draw(st.integers(0, size - 1))
        nodes[at] = nodes[at]._replace(is_present=True)

    return nodes


def follow(rows, start, lane):
    """The key of the node that the line in *lane* below the row *start* leads to."""
    for row in rows[start + 1 :]:
        if lane in row.above:
            return row.node.key

        assert lane in row.passing

    raise AssertionError("the line leads nowhere")


def parents_of(node, known):
    return {each for each in node.parents if each in known}


class TestLayOut:
    """Rows and lanes."""

    @given(graphs())
    def test_lines_lead_to_parents(self, nodes):
        """
        The lines below a state lead to its parents, and to nothing else: no two
        lines of one lane cross.
        """
        rows = list(lay_out(nodes))
        known = {node.key for node in nodes}
        for at, row in enumerate(rows):
            reached = {follow(rows, at, lane) for lane in row.below}

            assert parents_of(row.node, known) == reached

    @given(graphs())
    def test_no_line_without_a_beginning(self, nodes):
        """What ends in a row or goes through it began above it."""
        open_lanes: set[int] = set()
        for row in lay_out(nodes):
            assert {*row.above, *row.passing} == open_lanes
            # A line may end in the lane of one that begins there, not of one
            # that goes through; nor does a state stand on another's line.
            assert not {*row.above} & {*row.passing}
            assert row.lane not in row.passing

            open_lanes = {*row.passing, *row.below}

        assert not open_lanes

    @given(graphs())
    def test_the_present_is_in_the_first_lane(self, nodes):
        """And so is its whole past, by first parents."""
        rows = {row.node.key: row for row in lay_out(nodes)}
        at = next((node.key for node in nodes if node.is_present), None)
        while at is not None:
            assert 0 == rows[at].lane

            at = next(iter(rows[at].node.parents), None)

    @given(graphs())
    def test_nested_lines(self, nodes):
        """Of two lines of which one is within the other, it is nearer to the first."""
        lines: dict[int, int] = {}  # where the line of a lane began
        whole: list[tuple[int, int, int]] = []
        for at, row in enumerate(lay_out(nodes)):
            # A line goes on through the states of its branch.
            ending = {*row.above} - {row.lane} & {*row.below}
            whole += [(lines.pop(lane), at, lane) for lane in ending]

            for lane in {*row.below} - {*row.passing}:
                lines.setdefault(lane, at)

        for start, end, lane in whole:
            for other, until, beside in whole:
                if start < other and until < end and lane and beside:
                    assert beside < lane

    def test_nested_branches(self):
        """Branches that were left one after the other do not cross."""
        nodes = [GraphNode(each, (each - 1,) if each else (), "") for each in range(7)]
        nodes += [GraphNode(10 + each, (each,), "") for each in range(6)]
        rows = [*format_tree(nodes)]

        assert not [row for row in rows if "┼" in row]

    def test_many_branches(self):
        """Branches of one state share the way to it; a drawing has a widest lane."""
        star = [GraphNode(0, (), "root")]
        star += [GraphNode(each, (0,), f"{each}") for each in range(1, 2_000)]
        firsts = [GraphNode(each, (0,), f"{each}") for each in range(1, 200)]
        seconds = [GraphNode(-each, (each,), f"{-each}") for each in range(1, 200)]
        chains = [star[0], *firsts, *seconds]

        assert 1 == max(row.lane for row in lay_out(star))
        assert MAX_LANES - 1 == max(row.lane for row in lay_out(chains))


class TestFold:
    """Runs of states that are one row."""

    @given(graphs())
    def test_keeps_all(self, nodes):
        """
        No state is lost, or in two rows; what has a label, is present, or where
        branches begin, end or meet, has its own.
        """
        folded = fold_runs(nodes)
        shown: list[Any] = []
        for each in folded:
            inner = each.nodes if isinstance(each, Fold) else [each]
            shown += [node.key for node in inner]
            if isinstance(each, Fold):
                assert len(inner) >= 4
                for node in inner:
                    children = [one for one in nodes if node.key in one.parents]

                    assert not node.labels
                    assert not node.is_present
                    assert 1 == len(node.parents) == len(children)

        assert sorted(shown) == [node.key for node in nodes]

    @given(graphs())
    def test_lines_stay(self, nodes):
        """A folded drawing has the lines between what is left."""
        folded = fold_runs(nodes)
        home = {}
        for each in folded:
            inner = each.nodes if isinstance(each, Fold) else [each]
            home.update({node.key: each.key for node in inner})

        rows = list(lay_out(folded))
        for at, row in enumerate(rows):
            reached = {follow(rows, at, lane) for lane in row.below}

            assert {home[each] for each in row.node.parents if each in home} == reached

    def test_a_long_run(self):
        """
        The first and the last state of a run stay, and so does the first of a branch.
        """
        nodes = [
            GraphNode(each, (each - 1,) if each else (), f"{each}")
            for each in range(1_000)
        ]
        first, fold, last = fold_runs(nodes)

        assert (0, 999) == (first.key, last.key)
        assert isinstance(fold, Fold)
        assert 998 == len(fold.nodes)
        branch = GraphNode(1_000, (100,), "1000")
        assert [0, 99, 100, 101, 998, 999, 1_000] == [
            each.key for each in fold_runs([*nodes, branch])
        ]


class TestPages:
    """The drawing of a large tree, some rows at a time."""

    @given(graphs(), st.integers(1, 4))
    def test_older_states(self, nodes, max_rows):
        """
        Every state is behind the links to older ones, and the last drawing has no
        such link.
        """
        asked: list[Any] = []

        def link(last: Any) -> str:
            asked.append(last)
            return "#older"

        left: list[GraphNode] = nodes
        shown: set[str] = set()
        while left:
            asked.clear()
            tree = draw_tree(left, Words(), max_rows=max_rows, link_older=link)
            shown |= {text.strip() for text in re.findall("[^<>]+", tree)}

            assert len(asked) == tree.count('href="#older"')

            left = [node for node in left if asked and node.key < asked[0]]

        assert {node.title for node in nodes} <= shown


class TestText:
    """The drawing for terminals."""

    def test_fork_and_join(self):
        """Lanes are lines; forks and joins have corners."""
        nodes = [
            GraphNode("a", (), "root"),
            GraphNode("b", ("a",), "left", labels=("one",)),
            GraphNode("c", ("a",), "right"),
            GraphNode("d", ("b", "c"), "join", is_present=True, facts="4 messages"),
        ]
        expected = [
            "●  join ← you are here  (4 messages)",
            "├─╮",
            "│ ○  right",
            "○ │  left [one]",
            "├─╯",
            "○  root",
        ]

        assert expected == list(format_tree(nodes))

    @given(graphs())
    def test_every_state_has_a_line(self, nodes):
        """Each line with a state has its title, in the order of the rows."""
        lines = [line for line in format_tree(nodes) if set("●○┆") & set(line)]
        rows = reversed(fold_runs(nodes))

        for line, node in zip(lines, rows, strict=True):
            assert isinstance(node, Fold) or f"  {node.title}" in line

    def test_older_states(self):
        """What does not fit is counted."""
        nodes = [
            GraphNode(each, (each - 1,), f"{each}", labels=("x",)) for each in range(99)
        ]
        lines = list(format_tree(nodes, max_rows=10))

        assert 11 == len(lines)
        assert "… and 89 older states" == lines[-1]

"""
Windows to providers' formats: a module for each, none needs its SDK.
"""

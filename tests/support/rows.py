"""Tables of a test whose rows leave no trace behind, and so share one set-up."""

import functools
import inspect
from contextlib import contextmanager


def each(names, rows):
    """Like `pytest.mark.parametrize`, but all rows are one test: for what is refused or only read.

    The note of a failure names its row.
    """

    def decorate(test):
        taken = (names,) if isinstance(names, str) else names
        values = [dict(zip(taken, (row,) if isinstance(names, str) else row, strict=True)) for row in rows]
        assert values, "a table without rows tests nothing"

        @functools.wraps(test)
        def in_turn(*owner, **fixtures):
            for row in values:
                with _noted(row):
                    test(*owner, **fixtures, **row)

        @functools.wraps(test)
        async def in_turn_on_the_loop(*owner, **fixtures):
            for row in values:
                with _noted(row):
                    await test(*owner, **fixtures, **row)

        whole = in_turn_on_the_loop if inspect.iscoroutinefunction(test) else in_turn
        signature = inspect.signature(test)
        others = [one for one in signature.parameters.values() if one.name not in taken]
        whole.__signature__ = signature.replace(parameters=others)
        return whole

    return decorate


@contextmanager
def _noted(row):
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the row {row}")
        raise

"""Tests of a file that do nothing but wait, at the same time: for a name to be looked up again, a peer to be called dead,
a deadline to pass. Each stays a test of its own, with a name and a verdict; the first one of them that runs starts them
all, in threads, and waits until the last has ended, so that nothing else of the suite runs meanwhile.

Not for what loads the machine, or measures how fast something is."""
import concurrent.futures
import contextlib
import inspect

from redis_servers import free_port

AT_ONCE = 8  # their processes are idle; more would be felt by those that poll them


class Together:
    """A decorator. Its tests may have weir, build, tmp_path and free_port as ever, parameters, the fixtures |shared| of
    their module, and what |makers| make: by a name each, a function of any of those, or of what was made before, that
    returns a context manager."""

    def __init__(self, *shared, **makers):
        self.shared, self.makers = ("weir", "build", *shared), makers
        self.running = {}  # test's name: its future
        self.begun = False

    def __call__(self, story):
        ours = {"tmp_path", "free_port", *self.shared, *self.makers}
        kept = [p for name, p in inspect.signature(story).parameters.items() if name not in ours]

        def test(request, **_):
            if not self.begun:
                self._begin(request)
            future = self.running.pop(request.node.name, None)
            if future is None:  # it failed, and is run again
                self._tell(request.node, self._given(request, request.node))
            else:
                future.result()

        test.__name__, test.__doc__, test.__module__ = story.__name__, story.__doc__, story.__module__
        test.__signature__ = inspect.Signature([inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD), *kept])
        test.story, test.together = story, self
        return test

    def _begin(self, request):
        """All of them that were chosen."""
        self.begun = True
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as threads:
            for item in request.session.items:
                if getattr(item.function, "together", None) is self:
                    self.running[item.name] = threads.submit(self._tell, item, self._given(request, item))

    def _given(self, request, item):
        """Of pytest, which is not asked by several threads."""
        wanted = names(item.function.story).union(*[names(m) for m in self.makers.values()])
        given = dict(item.callspec.params) if hasattr(item, "callspec") else {}
        given |= {name: request.getfixturevalue(name) for name in self.shared if name in wanted}
        return given | {"tmp_path": request.getfixturevalue("tmp_path_factory").mktemp("together", numbered=True)}

    def _tell(self, item, given):
        given["free_port"] = free_port()
        wanted = names(item.function.story)
        with contextlib.ExitStack() as stack:
            for name, maker in self.makers.items():
                if name in wanted or any(name in names(m) for n, m in self.makers.items() if n in wanted):
                    given[name] = stack.enter_context(maker(**{n: given[n] for n in names(maker)}))
            item.function.story(**{name: given[name] for name in wanted})


def names(function):
    return set(inspect.signature(function).parameters)

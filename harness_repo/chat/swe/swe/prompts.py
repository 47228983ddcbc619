"""What the model is told: the task, the rules, the tools, and how to call them."""

from .calls import schema

SYSTEM = """\
You repair one bug in a Python repository. Work in small steps: reproduce the problem, find its \
cause, change the source, run the tests, then submit.

Rules
- Change source files only. Existing tests and configuration of the test runner stay as they are.
- Fix the cause for every input, not only for the example in the report.
- There is no network and no version history.

Tools
- view(path, start, end): lines of a file, or the names in a directory
- search(pattern, path): lines that match an extended regular expression
- edit(path, old, new): replaces `old`, which must stand exactly once; an empty `old` makes a new file
- run(command): a shell command in the repository
- test(paths): pytest on some paths; without paths, on the tests around the bug
- submit(): hands in the work and ends the attempt

Call a tool in every reply; several native calls are carried out in their order. Where native tool calls are not available, end the reply with one fenced \
block whose first word is the tool:

```view path/to/file.py 40 80
```
```search src
def parse_.*
```
```edit path/to/file.py
<<<<<<< old
    return a
=======
    return b
>>>>>>> new
```
```run
python3 -c "import package; print(package.f(1))"
```
```test tests/test_x.py
```
```submit
```
"""

TASK = "Repository: {repo}\n\nReport\n\n{issue}"

EMPTY_HANDED = "Nothing was changed yet. Repair the cause first; submit again if nothing is to be done."
NO_ACTION = "No tool was called. Call one tool: view, search, edit, run, test or submit."
CUT = "The reply was cut at its length limit before it called a tool. Be brief and call one tool."
LAST_TURNS = "\n[{left} turns left: submit before they run out]"

SCHEMAS = [
    schema("view", "Lines of a file, or a directory", "path", path="string", start="integer", end="integer"),
    schema("search", "Lines that match a pattern", "pattern", pattern="string", path="string"),
    schema("edit", "Replace text that stands exactly once", "path old new", path="string", old="string", new="string"),
    schema("run", "A shell command in the repository", "command", command="string"),
    schema("test", "Run pytest on some paths", paths="string"),
    schema("submit", "Hand in the work"),
]

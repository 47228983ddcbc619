"""What the model is told beside the functions and the question."""

SYSTEM = """\
You are given functions and a question. Reply with the calls that the question asks for and with nothing else, in this form:

[name(parameter=value, ...), name(...)]

If no function fits the question, or the value of a required parameter is missing, reply with [].
"""

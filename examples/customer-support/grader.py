def tools(task):
    def look_up(order: str) -> dict:
        """Status, price and age in days of an order."""
        return task["orders"][order]

    def refund(order: str) -> str:
        """Give the money for an order back. Only within 30 days of its delivery."""
        return f"{order} is refunded"

    return [look_up, refund]


def grade(task, answer):
    refunded = {call["arguments"].get("order") for call in answer.calls if call["tool"] == "refund"}
    return refunded == set(task["refund"]) and task["say"] in answer.lower()

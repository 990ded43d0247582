"""What every explanation's changes must be, whatever was recorded: in order, nothing twice, exact, and with what each gives up."""


def faults(document, recipes):
    """What is wrong with the changes of an explanation, in words. `recipes` gives what `thalweg recipes --json` has."""
    changes = document.get("what_if", [])
    found = []
    # What gives nothing up is tried before what does, and work that need not be done before all.
    of_the_number = ("server.parallel", "no_nagle", "time_limit", "names_at_once", "calls.larger", "disk.requests.x4", "overlap.stages", "lock.outside")
    once_first = bool(changes) and (changes[0]["id"].endswith("_once") or changes[0]["id"] in of_the_number)
    safe_first = once_first or (len(changes) > 1 and (changes[1]["id"] == "no_sync" or "gives_up" in changes[1]))
    order = [(change["basis"] == "bounded", change["predicted_wall_s"]) for change in changes[int(safe_first) :]]
    if order != sorted(order):
        found.append("the changes are not in the order of what they give, with bounds last")
    for field in ("id", "change"):
        found += [f"{one} stands twice" for one in _twice(change[field] for change in changes)]
    from_recipes = any("recipe" in one for one in [*changes, *document.get("advice", [])])
    known = {recipe["name"]: recipe for recipe in recipes()["recipes"]} if from_recipes else {}
    every = [*changes, *document.get("advice", [])]
    commands = [tuple(one["command"]) for one in every if one.get("command")]
    found += [f"{' '.join(command)} stands twice" for command in _twice(commands)]
    found += [f"{' '.join(command)} is the recorded command" for command in commands if list(command) == document["command"]]
    for one in changes:
        if not one["how"].strip():
            found.append(f"{one['id']} has nothing of how it is made")
        if "recipe" in one:
            found += _of_recipe(known, one, one["id"], "for")
        elif "gives_up" in one:
            found.append(f"{one['id']} gives something up, and no recipe says so")
    for one in document.get("advice", []):
        found += _of_recipe(known, one, one["cause"], "cause")
    return found


def _of_recipe(known, one, what, field):
    """An advice's recipe is there, has it for that, and gives up what is said."""
    if one["recipe"] not in known:
        return [f"{what} is from {one['recipe']}, which is no recipe"]
    said = [advice["gives_up"] for advice in known[one["recipe"]]["advice"] if what in advice.get(field, [])]
    if one.get("gives_up", "") in said:
        return []
    return [f"{what} is said to give up `{one.get('gives_up', '')}`, and the recipe {one['recipe']} does not say that"]


def _twice(every):
    seen, twice = set(), []
    for one in every:
        twice += [one] if one in seen else []
        seen.add(one)
    return twice

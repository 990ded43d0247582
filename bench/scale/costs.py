"""What a piece of work costs a processor, from storms on real servers: differences of the processor time of whole processes."""


def fit(kept):
    """Costs by the names that the simulation knows, in whole nanoseconds."""
    of = {tuple(name.split()[1:]): line for name, line in kept.items() if name.startswith("measured ")}

    def each(side, storm, clients, servers, times, many):
        """Processor time of a side, for each of so many pieces of work of a client."""
        return 1e9 * of[storm, str(clients), str(servers), str(times)][f"{side}_cpu_s"] / (clients * many)

    def both(storm, clients, servers, times, many):
        return [each(side, storm, clients, servers, times, many) for side in ("server", "client")]

    def slope(storm, clients, few, many):
        return [(b - a) / (many - few) for a, b in zip(both(storm, clients, 4, few, 1), both(storm, clients, 4, many, 1), strict=True)]

    metadata, client_message = both("stat", 64, 4, 1000, 1000)
    connect, client_connect = both("connect", 4000, 1, 1, 1)
    sizes, client_sizes = both("sizes", 64, 4, 300, 300)
    open_, _ = both("open", 64, 4, 60, 60)
    create, _ = both("create", 64, 4, 100, 100)
    entry, client_entry = slope("list", 128, 1000, 8000)
    glimpsed, client_glimpsed = slope("glimpse", 64, 1000, 8000)
    # A file in that listing has four datafiles, each at its own server.
    glimpse = (glimpsed - entry) / 4
    found = {
        "metadata_ns": metadata,
        # What it takes a listener to accept, and a thread to start, cannot be separated from the rest by its sum: a third, in turn with others.
        "accept_ns": (connect - metadata) / 3,
        "greet_ns": (connect - metadata) * 2 / 3,
        "entry_ns": entry,
        "io_ns": sizes / 4 - glimpse,
        "glimpse_ns": glimpse,
        "open_ns": open_ - sizes - metadata,
        "create_ns": create - 2 * metadata,
        "client_connect_ns": client_connect - client_message,
        "client_message_ns": (client_message + client_sizes / 4) / 2,
        "client_entry_ns": (client_entry + max(client_glimpsed - client_entry, 0) / 4) / 2,
    }
    return {name: max(1, round(value)) for name, value in found.items()}


def line_through(pairs):
    """Slope and intercept of least squares through (x, y)."""
    mean_x, mean_y = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
    over = sum((x - mean_x) ** 2 for x, _ in pairs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in pairs) / over
    return slope, mean_y - slope * mean_x

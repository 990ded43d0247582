/* See mount_description.h. What is not there is empty, and what is not known is passed over; a member of another type is an error, as it is
 * for the reader in Rust. */
#include "mount_description.h"
#include "json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A member that is a text, or empty where there is none. -1: it is something else. */
static int text_of(const struct json *object, const char *key, const char **text)
{
    const struct json *member = json_get(object, key);
    *text = member ? json_text(member) : "";
    return *text ? 0 : -1;
}

static int take_label(const struct json *document, const char *key, char *label)
{
    const char *text;
    if (text_of(document, key, &text) || strlen(text) >= STORE_LABEL_BYTES)
        return -1;
    strcpy(label, text);
    return 0;
}

/* Whether a member is a list of objects, or is not there. */
static int is_list(const struct json *list)
{
    if (list && list->kind != JSON_ARRAY)
        return 0;
    for (const struct json *one = list ? list->first : NULL; one; one = one->next)
        if (one->kind != JSON_OBJECT)
            return 0;
    return 1;
}

/* The label of the server with this name; empty where there is none. */
static const char *node_of(const struct json *servers, const char *name)
{
    for (const struct json *server = servers ? servers->first : NULL; server; server = server->next) {
        const char *known = json_text(json_get(server, "name")), *node = json_text(json_get(server, "node"));
        if (!strcmp(known ? known : "", name))
            return node ? node : "";
    }
    return "";
}

static int is_listed(const struct json *servers, const struct json *server, const char *node)
{
    for (const struct json *before = servers->first; before != server; before = before->next) {
        const char *other = json_text(json_get(before, "node"));
        if (other && !strcmp(other, node))
            return 1;
    }
    return 0;
}

static int read_servers(const struct json *servers, struct store *store)
{
    char *end = store->nodes = calloc(json_count(servers) + 1, STORE_LABEL_BYTES + 2);
    if (!end || !is_list(servers))
        return -1;
    for (const struct json *server = servers ? servers->first : NULL; server; server = server->next) {
        const char *node, *name;
        if (text_of(server, "node", &node) || text_of(server, "name", &name) || strlen(node) >= STORE_LABEL_BYTES)
            return -1;
        if (*node && !is_listed(servers, server, node))
            end += sprintf(end, "%s%s", end > store->nodes ? ", " : "", node);
    }
    return 0;
}

static int read_targets(const struct json *targets, const struct json *servers, struct store *store)
{
    store->here = calloc(json_count(targets) + 1, sizeof *store->here);
    if (!store->here || !is_list(targets))
        return -1;
    for (const struct json *target = targets ? targets->first : NULL; target; target = target->next) {
        const struct json *server = json_get(target, "server");
        uint64_t number;
        if (json_number(json_get(target, "target"), &number) || number > UINT32_MAX)
            return -1;
        if (server && server->kind != JSON_NULL && !json_text(server))
            return -1;
        const char *node = json_text(server) ? node_of(servers, json_text(server)) : "";
        if (*node && !strcmp(node, store->node))
            store->here[store->here_count++] = (uint32_t)number;
    }
    return 0;
}

int store_read(const char *text, size_t length, struct store *store)
{
    memset(store, 0, sizeof *store);
    struct json *document = json_read(text, length);
    const struct json *servers = json_get(document, "servers");
    int failed = !json_text(json_get(document, "store")) || take_label(document, "store", store->id) ||
                 take_label(document, "node", store->node) || read_servers(servers, store) ||
                 read_targets(json_get(document, "targets"), servers, store);
    if (failed)
        store_forget(store);
    json_free(document);
    return failed ? -1 : 0;
}

void store_forget(struct store *store)
{
    free(store->here);
    free(store->nodes);
    memset(store, 0, sizeof *store);
}

/* base/list.h: intrusive doubly linked lists with a head. Pure, never allocates.
 *
 * A `struct list` is head or link. An unlinked link points at itself, so removing it again is
 * harmless. `list_entry` gets the object around a link. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *prev;
};

#define list_entry(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* Safe against removal of the current entry. */
#define list_each(link, head)                                                                      \
    for (struct list *link = (head)->next, *link##_next_ = link->next; link != (head);             \
         link = link##_next_, link##_next_ = link->next)

/* The objects around the links of `head`, whose links are their `member`; as list_each(). */
#define list_each_entry(item, head, type, member)                                                  \
    for (type *item = list_entry((head)->next, type, member),                                      \
              *item##_next_ = list_entry(item->member.next, type, member);                         \
         &item->member != (head);                                                                  \
         item = item##_next_, item##_next_ = list_entry(item->member.next, type, member))

static inline void list_init(struct list *list) {
    list->next = list;
    list->prev = list;
}

static inline bool list_empty(const struct list *head) {
    return head->next == head;
}

static inline void list_insert_before(struct list *at, struct list *link) {
    link->prev = at->prev;
    link->next = at;
    at->prev->next = link;
    at->prev = link;
}

static inline void list_push_back(struct list *head, struct list *link) {
    list_insert_before(head, link);
}

static inline void list_push_front(struct list *head, struct list *link) {
    list_insert_before(head->next, link);
}

static inline void list_remove(struct list *link) {
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

/* The first link, or NULL. */
static inline struct list *list_first(const struct list *head) {
    return list_empty(head) ? NULL : head->next;
}

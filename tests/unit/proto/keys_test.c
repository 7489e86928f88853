#include "proto/keys.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const suite_name = "keys";
const double suite_timeout_s = 60;

static char root[64];
static char folder[96];
static char secret[128];
static struct error error;
static struct keys keys;

static unsigned n_synced, fails_at; /* 0: none */

/* In the place of the C library's, which has no way to fail when a test wants it. */
int fsync(int fd) {
    (void)fd;
    if (++n_synced != fails_at)
        return 0;
    errno = EIO;
    return -1;
}

static void setup(void) {
    snprintf(root, sizeof root, "/tmp/tandem-keys-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(folder, sizeof folder, "%s/keys", root);
    snprintf(secret, sizeof secret, "%s/client.secret", folder);
    ck_assert_int_eq(keys_make(folder, &error), STATUS_OK);
}

static void teardown(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    ck_assert_int_eq(system(command), 0);
}

static void overwrite(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(made_keys_load_and_are_private) {
    struct stat there;
    ck_assert_int_eq(keys_load(folder, &keys, &error), STATUS_OK);
    ck_assert_uint_eq(strlen(keys.server_public), 40);
    ck_assert_str_ne(keys.server_secret, keys.client_secret);
    ck_assert_int_eq(stat(folder, &there), 0);
    ck_assert_uint_eq(there.st_mode & 0777, 0700);
    ck_assert_int_eq(stat(secret, &there), 0);
    ck_assert_uint_eq(there.st_mode & 0777, 0600);
    keys_wipe(&keys);
    ck_assert_uint_eq(strlen(keys.client_secret), 0);
}
END_TEST

START_TEST(keys_are_never_overwritten) {
    struct keys again;
    ck_assert_int_eq(keys_load(folder, &keys, &error), STATUS_OK);
    ck_assert_int_eq(keys_make(folder, &error), STATUS_EXISTS);
    ck_assert_int_eq(keys_load(folder, &again, &error), STATUS_OK);
    ck_assert_mem_eq(&keys, &again, sizeof keys);
}
END_TEST

/* Where one file is there, nothing is done to the folder. */
START_TEST(a_folder_with_one_of_the_files_stays_as_it_is) {
    struct stat there;
    char path[128];
    static const char *const others[] = {"server.public", "server.secret", "client.public"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, others[i]);
        ck_assert_int_eq(unlink(path), 0);
    }
    ck_assert_int_eq(chmod(folder, 0755), 0);
    ck_assert_int_eq(keys_make(folder, &error), STATUS_EXISTS);
    ck_assert_int_eq(stat(folder, &there), 0);
    ck_assert_uint_eq(there.st_mode & 0777, 0755);
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

/* Each of the four files, and none. */
START_TEST(keys_that_cannot_be_written_leave_no_file) {
    char other[128];
    snprintf(other, sizeof other, "%s/other", root);
    for (unsigned i = 1; i <= 4; i++) {
        n_synced = 0;
        fails_at = i;
        ck_assert_int_eq(keys_make(other, &error), STATUS_IO);
        ck_assert_uint_eq(n_synced, i);
        ck_assert_int_eq(rmdir(other), 0); /* it is empty */
    }
    n_synced = 0;
    fails_at = 5;
    ck_assert_int_eq(keys_make(other, &error), STATUS_OK);
    ck_assert_uint_eq(n_synced, 4);
}
END_TEST

START_TEST(what_the_system_refuses_has_its_status) {
    char path[128];
    snprintf(path, sizeof path, "%s/none/keys", root);
    ck_assert_int_eq(keys_make(path, &error), STATUS_NOT_FOUND);
    ck_assert_int_eq(keys_load(path, &keys, &error), STATUS_NOT_FOUND);
    snprintf(path, sizeof path, "%s/keys", secret); /* a file is no folder */
    ck_assert_int_eq(keys_make(path, &error), STATUS_IO);
    ck_assert_int_eq(keys_load(path, &keys, &error), STATUS_IO);
}
END_TEST

START_TEST(loading_leaves_no_file_open) {
    unsigned n_before = suite_count_files();
    ck_assert_int_eq(keys_load(folder, &keys, &error), STATUS_OK);
    overwrite(secret, "no key");
    ck_assert_int_eq(keys_load(folder, &keys, &error), STATUS_INVALID);
    ck_assert_uint_eq(suite_count_files(), n_before);
}
END_TEST

START_TEST(keys_that_others_can_read_are_refused) {
    static const mode_t refused[] = {0644, 0660, 0602, 0601};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ck_assert_int_eq(chmod(secret, refused[i]), 0);
        ck_assert_int_eq(keys_load(folder, &keys, &error), STATUS_DENIED);
    }
    ck_assert_int_eq(chmod(secret, 0600), 0);
    ck_assert_int_eq(chmod(folder, 0775), 0);
    ck_assert_int_eq(keys_load(folder, &keys, &error), STATUS_DENIED);
    ck_assert_int_eq(chmod(folder, 0777), 0);
    ck_assert_int_eq(keys_load(folder, &keys, &error), STATUS_DENIED);
}
END_TEST

/* Of anybody else than root the same is refused. */
START_TEST(root_may_share_keys_with_its_group) {
    enum status expected = geteuid() == 0 ? STATUS_OK : STATUS_DENIED;
    ck_assert_int_eq(chmod(secret, 0640), 0);
    ck_assert_int_eq(keys_load(folder, &keys, &error), expected);
    ck_assert_int_eq(chmod(secret, 0600), 0);
    ck_assert_int_eq(chmod(folder, 0755), 0);
    ck_assert_int_eq(keys_load(folder, &keys, &error), expected);
    ck_assert_int_eq(chmod(folder, 01777), 0);
    ck_assert_int_eq(keys_load(folder, &keys, &error), expected);
}
END_TEST

START_TEST(keys_of_another_user_are_refused) {
    if (geteuid() != 0)
        return; /* nobody else can give files away */
    ck_assert_int_eq(chown(secret, 65534, 0), 0);
    ck_assert_int_eq(keys_load(folder, &keys, &error), STATUS_DENIED);
    ck_assert_int_eq(chown(secret, 0, 0), 0);
    ck_assert_int_eq(chown(folder, 65534, 0), 0);
    ck_assert_int_eq(chmod(folder, 0755), 0);
    ck_assert_int_eq(keys_load(folder, &keys, &error), STATUS_DENIED);
}
END_TEST

/* As in a volume of Kubernetes: server.public -> ..data/server.public, ..data -> a folder. */
START_TEST(files_may_be_links) {
    char command[512];
    snprintf(command, sizeof command,
             "cd %s && mkdir ..now && mv server.* client.* ..now && ln -s ..now ..data && "
             "for f in server.public server.secret client.public client.secret; do ln -s "
             "..data/$f $f; done",
             folder);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(keys_load(folder, &keys, &error), STATUS_OK);
}
END_TEST

START_TEST(what_is_not_a_key_is_refused) {
    char path[160];
    overwrite(secret, "");
    ck_assert_int_eq(keys_load(folder, &keys, &error), STATUS_INVALID);
    overwrite(secret,
              "\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"");
    ck_assert_int_eq(keys_load(folder, &keys, &error), STATUS_INVALID);
    overwrite(secret, "0000000000000000000000000000000000000000"); /* nobody's */
    ck_assert_int_eq(keys_load(folder, &keys, &error), STATUS_INVALID);
    ck_assert_int_eq(unlink(secret), 0);
    ck_assert_int_eq(keys_load(folder, &keys, &error), STATUS_NOT_FOUND);
    snprintf(path, sizeof path, "%s/absent", root);
    ck_assert_int_eq(keys_load(path, &keys, &error), STATUS_NOT_FOUND);
    ck_assert_int_eq(mkfifo(secret, 0600), 0); /* does not wait for a writer */
    ck_assert_int_eq(keys_load(folder, &keys, &error), STATUS_INVALID);
}
END_TEST

void suite_add(TCase *tests) {
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, made_keys_load_and_are_private);
    tcase_add_test(tests, keys_are_never_overwritten);
    tcase_add_test(tests, a_folder_with_one_of_the_files_stays_as_it_is);
    tcase_add_test(tests, keys_that_cannot_be_written_leave_no_file);
    tcase_add_test(tests, what_the_system_refuses_has_its_status);
    tcase_add_test(tests, loading_leaves_no_file_open);
    tcase_add_test(tests, keys_that_others_can_read_are_refused);
    tcase_add_test(tests, root_may_share_keys_with_its_group);
    tcase_add_test(tests, keys_of_another_user_are_refused);
    tcase_add_test(tests, files_may_be_links);
    tcase_add_test(tests, what_is_not_a_key_is_refused);
}

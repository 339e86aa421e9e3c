/* customer.h - what `weir customer` and `weir usage` share: the database of a policy's customers,
 * and how customers are printed. */
#ifndef WR_CLI_CUSTOMER_H
#define WR_CLI_CUSTOMER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "doors/customer_page.h"
#include "meter/customers.h"
#include "policy/customers.h"

#define WR_POLICY_DEFAULT "/etc/weir/policy.yaml"

/* A policy and the database of its customers. */
struct wr_book {
    struct wr_policy *policy;
    const struct wr_policy_customers *customers;
    struct wr_database *database;
    int64_t now_ns;
};

/* Open them. False: said on standard error. */
bool wr_book_open(struct wr_book *book, const char *path, bool write);
/* The same, to write: the database and its folder are made where there are none yet. */
bool wr_book_begin(struct wr_book *book, const char *path);
/* The policy alone: database is NULL. */
bool wr_book_open_policy(struct wr_book *book, const char *path);
void wr_book_close(struct wr_book *book);
/* Begin a database in place of one that was lost. Returns the exit status. */
int wr_book_recover(const char *path);
/* Say on standard error that |command| failed for |result|; returns the exit status. */
int wr_book_fail(const struct wr_book *book, const char *command, int result);

/* Say on standard error what is wrong with the file at |path|, once with its name. */
void wr_book_print_fault(const char *path, const char *text);

void wr_book_print_customer(const struct wr_book *book, const struct wr_customer *customer);
void wr_book_print_key(const struct wr_customer_key *key);
void wr_book_print_audit(const struct wr_audit *audit);
/* Print |page| and a newline, and free it. */
bool wr_book_print_page(struct wr_page *page);

#endif

/* Whether an encoded message is ordinary, for `_runs.c`: `header.py` reads all others. No input is read out of bounds. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { SPECIAL = -1, PLAIN = 0, DURABLE = 1 };

#define AT(i) ((unsigned char)body[i])

/* The annotations that delivery times have in common (`delivery_time.NAMES`). */
static const char TIMES[] = "x-opt-delivery-";

/* Whether what begins at `at` is a section after the annotations, or annotations without a delivery time. */
static bool untimed(const char *body, size_t size, size_t at) {
  if (size < at + 3 || AT(at) != 0 || AT(at + 1) != 0x53) return false;
  if (AT(at + 2) > 0x72) return true;
  if (AT(at + 2) != 0x72 || size < at + 9) return false;
  size_t end;
  if (AT(at + 3) == 0xC1) end = at + 5 + AT(at + 4);
  else if (AT(at + 3) == 0xD1 && !AT(at + 4) && !AT(at + 5)) end = at + 8 + 256 * AT(at + 6) + AT(at + 7);
  else return false;
  if (end > size) return false;
  return memmem(body + at, end - at, TIMES, sizeof TIMES - 1) == NULL;
}

/* PLAIN or DURABLE for a message whose header and annotations, as clients encode them, ask for nothing else; SPECIAL
 * for all others, which `header.py` reads. */
static int class_of(const char *body, size_t size) {
  if (size < 7 || AT(0) != 0 || AT(1) != 0x53) return SPECIAL;
  if (AT(2) != 0x70) return untimed(body, size, 0) ? PLAIN : SPECIAL;
  if (AT(3) == 0x45) return untimed(body, size, 4) ? PLAIN : SPECIAL;
  if (AT(3) != 0xC0) return SPECIAL;
  size_t end = 5 + (size_t)AT(4), at = 6;
  if (end > size || end < at) return SPECIAL;
  int fields = AT(5), class = PLAIN;
  if (fields > 5) return SPECIAL; /* also if those beyond the standard's are null */
  for (int field = 0; field < fields; field++) {
    if (at >= end) return SPECIAL;
    unsigned char code = AT(at++);
    if (code == 0x40) continue; /* null */
    switch (field) {
    case 0: /* durable */
      if (code == 0x41) class = DURABLE;
      else if (code != 0x42) return SPECIAL;
      break;
    case 1: /* priority: the default alone */
      if (code != 0x50 || at >= end || AT(at++) != 4) return SPECIAL;
      break;
    case 3: /* first-acquirer */
      if (code != 0x41 && code != 0x42) return SPECIAL;
      break;
    case 4: /* delivery-count: none */
      if (code != 0x43) return SPECIAL;
      break;
    default: /* ttl, and what the standard does not have */
      return SPECIAL;
    }
  }
  return at == end && untimed(body, size, end) ? class : SPECIAL;
}

#undef AT

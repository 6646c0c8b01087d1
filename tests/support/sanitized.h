/* SPDX-License-Identifier: Apache-2.0
 *
 * TEST_IS_SANITIZED: 1 where AddressSanitizer watches. It gives every large block fresh pages, so that libraries which
 * make many of them take a hundred times as long.
 */
#ifndef TESTS_SUPPORT_SANITIZED_H
#define TESTS_SUPPORT_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__)
#define TEST_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TEST_IS_SANITIZED 1
#endif
#endif
#ifndef TEST_IS_SANITIZED
#define TEST_IS_SANITIZED 0
#endif

#endif

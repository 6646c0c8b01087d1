/* SPDX-License-Identifier: Apache-2.0
 *
 * TEST_IS_SANITIZED: 1 where AddressSanitizer or ThreadSanitizer watches. The first gives every large block fresh
 * pages, so that libraries which make many of them take a hundred times as long. TEST_FOLLOWS_THREADS: 1 with the
 * second.
 */
#ifndef TESTS_SUPPORT_SANITIZED_H
#define TESTS_SUPPORT_SANITIZED_H

#if defined(__SANITIZE_THREAD__)
#define TEST_FOLLOWS_THREADS 1
#elif defined(__SANITIZE_ADDRESS__)
#define TEST_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_FOLLOWS_THREADS 1
#elif __has_feature(address_sanitizer)
#define TEST_IS_SANITIZED 1
#endif
#endif
#ifndef TEST_FOLLOWS_THREADS
#define TEST_FOLLOWS_THREADS 0
#endif
#ifndef TEST_IS_SANITIZED
#define TEST_IS_SANITIZED TEST_FOLLOWS_THREADS
#endif

#endif

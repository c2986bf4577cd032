/* box.h: every public name of the box that isn't a setting: headers, addresses, parameters, members
 * of answers, names of metrics. In one place, so that a change of the interface is a change here.
 * docs/box.md says what they mean. */
#ifndef SALLYPORT_BOX_H
#define SALLYPORT_BOX_H

/* Headers of a request. */
#define BOX_H_AUTHORIZATION "authorization"
#define BOX_AUTH_SCHEME "Bearer"
#define BOX_H_IDENTITY "x-runbox-identity"
#define BOX_H_TENANT "x-runbox-tenant"
#define BOX_H_USER "x-runbox-user"
#define BOX_IDENTITY_MAX 256u /* bytes of each */

/* Headers of an answer. */
#define BOX_CHALLENGE "WWW-Authenticate: Bearer realm=\"sallyport\"\r\n"
#define BOX_RETRY "Retry-After: 1\r\n"
#define BOX_T_ARCHIVE "X-Runbox-Archive" /* a trailer: "whole" or "partial" */

/* Addresses. */
#define BOX_PREFIX "/v1/"
#define BOX_EXEC "/v1/exec"
#define BOX_FILES "/v1/files"
#define BOX_BATCH "/v1/files/batch"
#define BOX_LIST "/v1/list"
#define BOX_ARCHIVE "/v1/archive"
#define BOX_PATH "/v1/path"
#define BOX_USAGE "/v1/usage"
#define BOX_WORKSPACE "/v1/workspace"
#define BOX_CAPABILITIES "/v1/capabilities"
#define BOX_HEALTH "/healthz"
#define BOX_READY "/ready"
#define BOX_METRICS "/metrics"

/* Parameters of the query. */
#define BOX_Q_PATH "path"
#define BOX_Q_RECURSIVE "recursive"

/* Parts of a multipart body. */
#define BOX_PART_REQUEST "request"

/* Before an identity's bytes are hashed: which form it came in. */
#define BOX_TAG_IDENTITY "sallyport identity 1"
#define BOX_TAG_PAIR "sallyport tenant and user 1"
#define BOX_TAG_PROBE "sallyport probe 1"

#endif

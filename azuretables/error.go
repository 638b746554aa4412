package azuretables

import (
	"context"
	"errors"
	"strings"
	"unicode"

	"cqld/auth"
	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/coordinator"
	"cqld/internal/guard"
	"cqld/internal/memory"
	"cqld/schema/refused"
)

// Error codes that are not in odata, because odata knows neither protocols nor addresses. They concern the network
// address, the protocol and CORS.
const (
	authorizationProtocolMismatch  odata.Code = "AuthorizationProtocolMismatch"
	authorizationSourceIPMismatch  odata.Code = "AuthorizationSourceIPMismatch"
	corsPreflightFailure           odata.Code = "CorsPreflightFailure"
	insufficientAccountPermissions odata.Code = "InsufficientAccountPermissions"
)

// secondaryWrite is the message of a change at the secondary endpoint.
const secondaryWrite = "Write operations are not allowed."

// retryAfterSeconds is the value of Retry-After if the expected delay is unknown: the minimum.
const retryAfterSeconds = 1

// NotServing reports that this node must not serve now; another one may. The client receives ServerBusy. It is returned
// by nodes that drain or that are not members.
type NotServing struct{ Reason string }

// Error returns the reason.
func (e *NotServing) Error() string { return e.Reason }

// busy is ServerBusy with a delay after which the client should retry. Clients wait that long because the response has
// Retry-After. seconds is at least 1.
type busy struct{ seconds int }

// Error returns the text of ServerBusy.
func (b *busy) Error() string { return b.Unwrap().Error() }

// Unwrap returns ServerBusy.
func (b *busy) Unwrap() error { return odata.Of(odata.ServerBusy) }

// serviceError converts err to the error that the client receives; no other function does so. Timeouts and unknown
// outcomes become OperationTimedOut, because the change may have been made. Refusals before any work become ServerBusy.
// Any other error becomes InternalError, with known false. It does not log.
func serviceError(err error) (e *odata.Error, known bool) {
	var (
		notServing   *NotServing
		unavailable  *coordinator.Unavailable
		voters       *refused.Unavailable
		overloaded   *coordinator.Overloaded
		writeTimeout *coordinator.WriteTimeout
		readTimeout  *coordinator.ReadTimeout
		writeFailure *coordinator.WriteFailure
		readFailure  *coordinator.ReadFailure
		unknown      *coordinator.CASUnknown
		panicked     *guard.PanicError
		denied       *auth.Denied
		tooLarge     *memory.TooLarge
	)
	switch {
	// An error that already has a code of the service keeps it.
	case errors.As(err, &e):
		return e, true
	// The role of the account lacks a permission. The error does not say which.
	case errors.As(err, &denied):
		return odata.Of(odata.AuthorizationPermissionMismatch), true
	// The request would never get the memory, and clients retry after ServerBusy.
	case errors.As(err, &tooLarge):
		e = odata.Of(odata.InvalidInput)
		e.Message = tooLarge.Error() + "."
		return e, true
	// The request did not get memory, and has changed nothing.
	case errors.Is(err, memory.ErrExhausted):
		return odata.Of(odata.ServerBusy), true
	// Too few replicas, too many requests, or a node that must not serve: another attempt may succeed.
	case errors.As(err, &unavailable), errors.As(err, &voters), errors.As(err, &overloaded),
		errors.As(err, &notServing):
		return odata.Of(odata.ServerBusy), true
	// A canceled request is in this group because cancellation comes at any point of a change.
	case errors.As(err, &writeTimeout), errors.As(err, &readTimeout), errors.As(err, &unknown),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return odata.Of(odata.OperationTimedOut), true
	// A failure at replicas was reported and logged where it arose, so it is known.
	case errors.As(err, &writeFailure), errors.As(err, &readFailure), errors.As(err, &panicked):
		return odata.Of(odata.InternalError), true
	}
	return odata.Of(odata.InternalError), false
}

// status returns the HTTP status of a code. Codes that belong to this package are all 403; odata knows the others. It
// is the only place that maps codes of both packages.
func status(code odata.Code) int {
	switch code {
	case authorizationProtocolMismatch, authorizationSourceIPMismatch, corsPreflightFailure,
		insufficientAccountPermissions:
		return 403
	}
	return code.Status()
}

// fail responds with an error. It discards what the handler has added to the response so far. It is called once for
// each request that fails.
func (c *call) fail(err error) {
	e, known := serviceError(err)
	// Errors without a code are defects or storage failures. The id finds the log entry for the client's error.
	if !known {
		c.server.log.Error("request failed", "request", c.id, "err", err)
	}
	c.failure = e
	r := c.resp
	r.failed()
	r.status = status(e.Code)
	switch {
	// Azure's front end refuses these requests, and its responses have fewer headers.
	case e.Code == odata.AuthenticationFailed, e.Code == odata.InvalidAuthenticationInfo:
		r.unauthenticated(e, c.req.header.accept, c.id, c.now)
	// The format of the error follows the resource, not Accept: documents about the account are XML.
	case c.speaksXML() || c.req.method == "OPTIONS":
		r.contentType = "application/xml"
		// A control character would break the status line. Without a text, the response has the standard phrase.
		if !strings.ContainsFunc(e.Message, unicode.IsControl) { // some messages contain client input
			r.text = e.Message
		}
		r.add("x-ms-error-code", string(e.Code))
		r.body = e.AppendXML(r.body, c.id, c.now)
	// Every other error is JSON with the level of metadata that the client requested.
	default:
		r.data()
		r.contentType = c.level.ContentType()
		r.body = e.AppendJSON(r.body, c.id, c.now)
	}
	var b *busy
	switch {
	// A throttle knows when tokens will have accrued.
	case errors.As(err, &b):
		r.addInt("Retry-After", b.seconds)
	case e.Code == odata.ServerBusy:
		r.addInt("Retry-After", retryAfterSeconds)
	// RFC 9110 requires Allow in a 405.
	case r.status == 405:
		r.add("Allow", allowed(c.path.Resource, c.params.comp))
	}
}

// failedOperation returns the index of the operation of a transaction that err is about; ok is false if err names none.
// Index counts from 0.
func failedOperation(err error) (index int, ok bool) {
	var f *entity.Failed
	// Failed is from applying a transaction, RequestError from parsing a batch.
	var r *odata.RequestError
	switch {
	case errors.As(err, &f):
		return f.Index, true
	case errors.As(err, &r):
		return r.Index, true
	}
	return 0, false
}

package odata

import (
	"strconv"
	"time"
)

// Code is the service's name of an error, which clients test. Codes are part of the protocol: their spelling must not
// change. The constants are an incomplete list: clients must treat unknown codes by their status.
type Code string

// Error is an error response. Message is the service's text without request id and time.
type Error struct {
	Code    Code
	Message string
}

// Error returns the code and the text.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// The codes, with the messages of the service: those recorded, and those in the REST reference's lists of common and of
// Table service error codes.
const (
	AtomFormatNotSupported                  Code = "AtomFormatNotSupported"
	AuthenticationFailed                    Code = "AuthenticationFailed"
	AuthorizationFailure                    Code = "AuthorizationFailure"
	AuthorizationPermissionMismatch         Code = "AuthorizationPermissionMismatch"
	AuthorizationResourceTypeMismatch       Code = "AuthorizationResourceTypeMismatch"
	AuthorizationServiceMismatch            Code = "AuthorizationServiceMismatch"
	CommandsInBatchActOnDifferentPartitions Code = "CommandsInBatchActOnDifferentPartitions"
	ContentLengthExceeded                   Code = "ContentLengthExceeded"
	DuplicatePropertiesSpecified            Code = "DuplicatePropertiesSpecified"
	EntityAlreadyExists                     Code = "EntityAlreadyExists"
	EntityNotFound                          Code = "EntityNotFound"
	EntityTooLarge                          Code = "EntityTooLarge"
	HostInformationNotPresent               Code = "HostInformationNotPresent"
	InternalError                           Code = "InternalError"
	InvalidAuthenticationInfo               Code = "InvalidAuthenticationInfo"
	InvalidDuplicateRow                     Code = "InvalidDuplicateRow"
	InvalidHeaderValue                      Code = "InvalidHeaderValue"
	InvalidInput                            Code = "InvalidInput"
	InvalidMD5                              Code = "InvalidMd5"
	InvalidQueryParameterValue              Code = "InvalidQueryParameterValue"
	InvalidResourceName                     Code = "InvalidResourceName"
	InvalidURI                              Code = "InvalidUri"
	InvalidValueType                        Code = "InvalidValueType"
	InvalidXMLDocument                      Code = "InvalidXmlDocument"
	JSONFormatNotSupported                  Code = "JsonFormatNotSupported"
	KeyValueTooLarge                        Code = "KeyValueTooLarge"
	MD5Mismatch                             Code = "Md5Mismatch"
	MediaTypeNotSupported                   Code = "MediaTypeNotSupported"
	MethodNotAllowed                        Code = "MethodNotAllowed"
	MissingRequiredHeader                   Code = "MissingRequiredHeader"
	NotImplemented                          Code = "NotImplemented"
	OperationTimedOut                       Code = "OperationTimedOut"
	OutOfRangeInput                         Code = "OutOfRangeInput"
	PropertiesNeedValue                     Code = "PropertiesNeedValue"
	PropertyNameInvalid                     Code = "PropertyNameInvalid"
	PropertyNameTooLong                     Code = "PropertyNameTooLong"
	PropertyValueTooLarge                   Code = "PropertyValueTooLarge"
	RequestBodyTooLarge                     Code = "RequestBodyTooLarge"
	ResourceNotFound                        Code = "ResourceNotFound"
	ServerBusy                              Code = "ServerBusy"
	TableAlreadyExists                      Code = "TableAlreadyExists"
	TableBeingDeleted                       Code = "TableBeingDeleted"
	TableNotFound                           Code = "TableNotFound"
	TooManyProperties                       Code = "TooManyProperties"
	UnsupportedHTTPVerb                     Code = "UnsupportedHttpVerb"
	UpdateConditionNotSatisfied             Code = "UpdateConditionNotSatisfied"
	XMethodIncorrectCount                   Code = "XMethodIncorrectCount"
	XMethodIncorrectValue                   Code = "XMethodIncorrectValue"
	XMethodNotUsingPost                     Code = "XMethodNotUsingPost"
)

// Of returns the error of a code with the service's message. The caller owns the result and may change its message. The
// messages of limits name the service's limits; see beyond.
func Of(code Code) *Error { return &Error{Code: code, Message: code.message()} }

// Status returns the HTTP status of a code; 500 for an unknown one. A changed status would make SDKs retry, or not
// retry, a request.
func (c Code) Status() int {
	switch c {
	case CommandsInBatchActOnDifferentPartitions, ContentLengthExceeded, DuplicatePropertiesSpecified,
		EntityTooLarge, HostInformationNotPresent, InvalidAuthenticationInfo, InvalidDuplicateRow,
		InvalidHeaderValue, InvalidInput, InvalidMD5, MD5Mismatch, InvalidQueryParameterValue, InvalidResourceName,
		InvalidURI,
		InvalidValueType, InvalidXMLDocument, KeyValueTooLarge, MissingRequiredHeader, OutOfRangeInput,
		PropertiesNeedValue, PropertyNameInvalid, PropertyNameTooLong, PropertyValueTooLarge, TooManyProperties,
		XMethodIncorrectCount, XMethodIncorrectValue, XMethodNotUsingPost:
		return 400
	// The service answers 403 and not 401 for wrong signatures as well.
	case AuthenticationFailed, AuthorizationFailure, AuthorizationPermissionMismatch,
		AuthorizationResourceTypeMismatch, AuthorizationServiceMismatch:
		return 403
	case EntityNotFound, ResourceNotFound, TableNotFound:
		return 404
	case MethodNotAllowed, UnsupportedHTTPVerb:
		return 405
	case EntityAlreadyExists, TableAlreadyExists, TableBeingDeleted:
		return 409
	case UpdateConditionNotSatisfied:
		return 412
	case RequestBodyTooLarge:
		return 413
	case AtomFormatNotSupported, JSONFormatNotSupported, MediaTypeNotSupported:
		return 415
	case NotImplemented:
		return 501
	case ServerBusy:
		return 503
	}
	return 500
}

// newError is Of, as the package's own code calls it.
func newError(c Code) *Error { return Of(c) }

// invalid returns InvalidInput with the given message.
func invalid(message string) *Error { return &Error{Code: InvalidInput, Message: message} }

// errBody returns the service's error for a malformed body, which contains no details. The service does not say where
// the error is, so neither does this.
func errBody() *Error { return invalid("An error occurred while processing this request.") }

// beyond returns the error of an exceeded limit, with the service's message. If the limit was changed, the message
// contains the configured number. standard is the service's limit. Only codes of limits are passed.
func beyond(c Code, limit, standard int) *Error {
	e := Of(c)
	// The service's message is kept verbatim while its limit is in force.
	if limit == standard {
		return e
	}
	n := strconv.Itoa(limit)
	switch c {
	case TooManyProperties:
		e.Message = "The entity contains more properties than allowed. Each entity can include up to " + n +
			" properties to store data. Each entity also has 3 system properties."
	case PropertyNameTooLong:
		e.Message = "The property name exceeds the maximum allowed length (" + n + ")."
	case PropertyValueTooLarge:
		e.Message = "The property value exceeds the maximum allowed size (" + n + " bytes)."
	case KeyValueTooLarge:
		e.Message = "The key value is larger than the maximum allowed size (" + n + " bytes)."
	case EntityTooLarge:
		e.Message = "The entity is larger than the maximum allowed size (" + n + " bytes)."
	}
	return e
}

// At returns the error as in the response to a changeset: with the operation's index in front of the message. e is not
// changed. The separator is a colon without a space.
func (e *Error) At(index int) *Error {
	return &Error{Code: e.Code, Message: strconv.Itoa(index) + ":" + e.Message}
}

// AppendJSON appends the error's body as JSON, which OData clients read. Message and ids are escaped. The message is
// followed by request id and time, as in the service. requestID is the value of x-ms-request-id.
func (e *Error) AppendJSON(dst []byte, requestID string, now time.Time) []byte {
	dst = append(dst, `{"odata.error":{"code":"`...)
	dst = appendEscaped(dst, string(e.Code))
	dst = append(dst, `","message":{"lang":"en-US","value":"`...)
	dst = appendEscaped(dst, e.Message)
	dst = append(dst, `\nRequestId:`...)
	dst = appendEscaped(dst, requestID)
	dst = append(dst, `\nTime:`...)
	dst = now.UTC().AppendFormat(dst, timeFormat)
	return append(dst, `"}}}`...)
}

// AppendXML appends the error's body as XML, for requests that do not use OData (access policies, service properties).
// It starts with a byte order mark, like the service's.
func (e *Error) AppendXML(dst []byte, requestID string, now time.Time) []byte {
	dst = append(dst, "\ufeff"+`<?xml version="1.0" encoding="utf-8"?><Error><Code>`...)
	dst = AppendXMLText(dst, string(e.Code))
	dst = append(dst, `</Code><Message>`...)
	dst = e.appendXMLMessage(dst, requestID, now)
	return append(dst, `</Message></Error>`...)
}

// AppendODataXML appends the error's body in OData's XML format, for clients that do not accept JSON. Such clients send
// Accept: application/atom+xml.
func (e *Error) AppendODataXML(dst []byte, requestID string, now time.Time) []byte {
	dst = append(dst, `<?xml version="1.0" encoding="utf-8"?>`+
		`<m:error xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata"><m:code>`...)
	dst = AppendXMLText(dst, string(e.Code))
	dst = append(dst, `</m:code><m:message xml:lang="en-US">`...)
	dst = e.appendXMLMessage(dst, requestID, now)
	return append(dst, `</m:message></m:error>`...)
}

// appendXMLMessage appends the text of both XML formats, escaped: the message, the request id and the time. Line breaks
// are plain in XML, and \n in JSON.
func (e *Error) appendXMLMessage(dst []byte, requestID string, now time.Time) []byte {
	dst = AppendXMLText(dst, e.Message)
	dst = append(dst, "\nRequestId:"...)
	dst = AppendXMLText(dst, requestID)
	dst = append(dst, "\nTime:"...)
	return now.UTC().AppendFormat(dst, timeFormat)
}

// timeFormat is the format of the time in an error's message: always seven decimal places of the second.
const timeFormat = "2006-01-02T15:04:05.0000000Z"

// AppendXMLText appends a text escaped for an XML element. Characters that XML 1.0 does not allow become U+FFFD.
// Attributes would need quotation marks escaped as well.
func AppendXMLText(dst []byte, s string) []byte {
	for _, r := range s {
		switch {
		case r == '<':
			dst = append(dst, "&lt;"...)
		case r == '>':
			dst = append(dst, "&gt;"...)
		case r == '&':
			dst = append(dst, "&amp;"...)
		case r < 0x20 && r != '\t' && r != '\n' && r != '\r', r == 0xFFFE, r == 0xFFFF:
			dst = append(dst, "\ufffd"...)
		default:
			dst = append(dst, string(r)...)
		}
	}
	return dst
}

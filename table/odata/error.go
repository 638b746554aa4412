package odata

// Code is the service's name of an error: what a client's program looks at.
type Code string

// Error is an answer that says no. Message is the service's text without request id and time.
type Error struct {
	Code    Code
	Message string
}

// Error is the code and the text.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// The codes, with the messages that the service gives (facts/azure-tables.md, "Errors"; and the REST
// reference's list of Table service error codes).
const (
	AuthenticationFailed        Code = "AuthenticationFailed"
	AuthorizationFailure        Code = "AuthorizationFailure"
	EntityAlreadyExists         Code = "EntityAlreadyExists"
	EntityTooLarge              Code = "EntityTooLarge"
	InvalidDuplicateRow         Code = "InvalidDuplicateRow"
	InvalidInput                Code = "InvalidInput"
	PropertiesNeedValue         Code = "PropertiesNeedValue"
	ResourceNotFound            Code = "ResourceNotFound"
	ServerBusy                  Code = "ServerBusy"
	OperationTimedOut           Code = "OperationTimedOut"
	InternalError               Code = "InternalError"
	TableAlreadyExists          Code = "TableAlreadyExists"
	TableNotFound               Code = "TableNotFound"
	UpdateConditionNotSatisfied Code = "UpdateConditionNotSatisfied"
)

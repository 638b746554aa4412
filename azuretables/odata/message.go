package odata

// message returns the service's text of a code: recorded ones verbatim, the others from the REST reference. A code
// without a message returns an empty string. Three functions share the codes, because one would be too long.
func (c Code) message() string {
	if m := c.messageOfEntity(); m != "" {
		return m
	}
	if m := c.messageOfTable(); m != "" {
		return m
	}
	return c.messageOfRequest()
}

// messageOfEntity returns the messages of errors about an entity or a batch of entities.
func (c Code) messageOfEntity() string {
	switch c {
	// The texts are the service's, including its grammar.
	case PropertiesNeedValue:
		return "The values are not specified for all properties in the entity."
	case PropertyNameInvalid:
		return "The property name is invalid."
	case PropertyNameTooLong:
		return "The property name exceeds the maximum allowed length (255)."
	case PropertyValueTooLarge:
		return "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it " +
			"is UTF-16 encoded and the maximum number of characters should be 32K or less."
	case TooManyProperties:
		return "The entity contains more properties than allowed. Each entity can include up to 252 properties to " +
			"store data. Each entity also has 3 system properties."
	case KeyValueTooLarge:
		return "The key value is larger than the maximum allowed size (1KB)."
	case OutOfRangeInput:
		return "One of the request inputs is out of range."
	case DuplicatePropertiesSpecified:
		return "A property is specified more than one time."
	case EntityAlreadyExists:
		return "The specified entity already exists."
	case EntityNotFound:
		return "The specified entity does not exist."
	case EntityTooLarge:
		return "The entity is larger than the maximum allowed size (1MB)."
	case InvalidValueType:
		return "The value specified is invalid."
	case InvalidInput:
		return "One of the request inputs is not valid."
	case UpdateConditionNotSatisfied:
		return "The update condition specified in the request was not satisfied."
	case ResourceNotFound:
		return "The specified resource does not exist."
	case InvalidDuplicateRow:
		return "The batch request contains multiple changes with same row key. An entity can appear only once in a " +
			"batch request."
	case CommandsInBatchActOnDifferentPartitions:
		return "All commands in a batch must operate on same entity group."
	}
	return ""
}

// messageOfTable returns the messages of errors about tables and authorization.
func (c Code) messageOfTable() string {
	switch c {
	case TableAlreadyExists:
		return "The table specified already exists."
	case TableBeingDeleted:
		return "The specified table is being deleted. Try operation later."
	case TableNotFound:
		return "The table specified does not exist."
	case InvalidResourceName:
		// The misspelling is the service's own.
		return "The specifed resource name contains invalid characters."
	case AuthenticationFailed:
		return "Server failed to authenticate the request. Make sure the value of Authorization header is formed " +
			"correctly including the signature."
	case AuthorizationFailure:
		return "This request is not authorized to perform this operation."
	case AuthorizationPermissionMismatch:
		return "This request is not authorized to perform this operation using this permission."
	case AuthorizationResourceTypeMismatch:
		return "This request is not authorized to perform this operation using this resource type."
	case AuthorizationServiceMismatch:
		return "This request is not authorized to perform this operation using this service."
	case InvalidAuthenticationInfo:
		return "Authentication information is not given in the correct format. Check the value of Authorization header."
	case InvalidXMLDocument:
		return "XML specified is not syntactically valid."
	}
	return ""
}

// messageOfRequest returns the messages of errors about the request itself.
func (c Code) messageOfRequest() string {
	switch c {
	case InvalidMD5:
		return "The MD5 value specified in the request is invalid. The MD5 value must be 128 bits and Base64-encoded."
	case MD5Mismatch:
		return "The MD5 value specified in the request did not match with the MD5 value calculated by the server."
	case AtomFormatNotSupported:
		return "Atom format is not supported."
	case ContentLengthExceeded:
		return "The content length for the requested operation has exceeded the limit."
	case HostInformationNotPresent:
		return "The required host information is not present in the request. You must send a non-empty Host header " +
			"or include the absolute URI in the request line."
	case InternalError:
		return "Server encountered an internal error. Please try again after some time."
	case InvalidHeaderValue:
		return "The value for one of the HTTP headers is not in the correct format."
	case InvalidQueryParameterValue:
		return "Value for one of the query parameters specified in the request URI is invalid."
	case InvalidURI:
		return "The requested URI does not represent any resource on the server."
	case JSONFormatNotSupported:
		return "JSON format is not supported."
	case MediaTypeNotSupported:
		return "None of the provided media types are supported"
	case MethodNotAllowed:
		return "The requested method is not allowed on the specified resource."
	case MissingRequiredHeader:
		return "An HTTP header that's mandatory for this request is not specified."
	case NotImplemented:
		return "The requested operation is not implemented on the specified resource."
	case OperationTimedOut:
		return "Operation could not be completed within the specified time."
	case RequestBodyTooLarge:
		return "The request body is too large and exceeds the maximum permissible limit."
	case ServerBusy:
		return "The server is busy."
	case UnsupportedHTTPVerb:
		return "The resource doesn't support the specified HTTP verb."
	case XMethodIncorrectCount:
		return "More than one X-HTTP-Method is specified."
	case XMethodIncorrectValue:
		return "The specified X-HTTP-Method is invalid."
	case XMethodNotUsingPost:
		return "The request uses X-HTTP-Method with an HTTP verb other than POST."
	}
	return ""
}

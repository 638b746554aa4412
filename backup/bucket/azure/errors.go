package azure

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"cqld/backup/bucket"
)

// answerBytesMax bounds the part of an answer that is searched for a message.
const answerBytesMax = 64 << 10

// translate returns the error of package bucket for an error of the library. Messages of the library contain URLs,
// whose parameters may be a signature: only codes, and messages of the service, become part of the error.
func translate(err error) error {
	var i *identityError
	if errors.As(err, &i) {
		return translateIdentity(i)
	}
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) {
		return bucket.Lost(err)
	}
	switch {
	// A container that does not exist is no place without objects.
	case answer.StatusCode == http.StatusNotFound && answer.ErrorCode == string(bloberror.BlobNotFound):
		return fmt.Errorf("the object store has no such object: %w", fs.ErrNotExist)
	// The object is shorter than it was.
	case answer.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("the object is too short: %w", io.ErrUnexpectedEOF)
	}
	text := message(answer.RawResponse)
	if advice := advise(bloberror.Code(answer.ErrorCode)); advice != "" {
		text = advice
	}
	return &bucket.Refusal{Status: answer.StatusCode, Code: answer.ErrorCode, Message: text}
}

// advise returns what to do about a code, or nothing.
func advise(code bloberror.Code) string {
	switch code {
	case bloberror.AuthenticationFailed, bloberror.AuthorizationFailure:
		return "The service rejects the credentials of the node: check AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or " +
			"AZURE_STORAGE_CONNECTION_STRING in its environment, its clock, and the network rules of the account."
	case bloberror.AuthorizationPermissionMismatch, bloberror.InsufficientAccountPermissions:
		return "The credentials of the node do not suffice: give its identity the role Storage Blob Data Contributor " +
			"for the container, or its signature the permissions to read, write, delete and list."
	case bloberror.ContainerNotFound:
		return "The container does not exist: create it."
	}
	return ""
}

// message returns the message of an answer in XML, or nothing.
func message(r *http.Response) string {
	if r == nil || r.Body == nil {
		return ""
	}
	var answer struct{ Message string }
	// The library has read the body and keeps it.
	if err := xml.NewDecoder(io.LimitReader(r.Body, answerBytesMax)).Decode(&answer); err != nil {
		return ""
	}
	// The identifier of the request and its time follow on lines of their own.
	first, _, _ := strings.Cut(strings.TrimSpace(answer.Message), "\n")
	return first
}

// translateIdentity returns the error of package bucket for an identity without a token. It is permanent if the service
// of identities has refused it.
func translateIdentity(err *identityError) error {
	const advice = "The node has no accepted credentials: set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN in its " +
		"environment, or assign its machine an identity."
	var failed *azidentity.AuthenticationFailedError
	if !errors.As(err, &failed) || failed.RawResponse == nil ||
		failed.RawResponse.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("%s %w", advice, bucket.Lost(err.error))
	}
	return &bucket.CredentialsError{Reason: advice}
}

package gcs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"cqld/backup/bucket"
)

// request is a request before it is sent.
type request struct {
	method, place string
	header        http.Header
	body          io.ReadCloser // nil means that there is none
	size          int64         // of body
}

// request returns a request for a URL with parameters.
func (*objects) request(method, place string, query url.Values) *request {
	if len(query) > 0 {
		place += "?" + query.Encode()
	}
	return &request{method: method, place: place, header: http.Header{}}
}

// ask sends a request and decodes the answer, a JSON object, into a pointer; nil ignores the answer.
func (b *objects) ask(ctx context.Context, r *request, into any) (err error) {
	answer, err := b.send(ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	limited := io.LimitReader(answer.Body, answerBytesMax)
	if into == nil {
		// A connection is used again if its answer was read.
		_, err = io.Copy(io.Discard, limited)
	} else {
		err = json.NewDecoder(limited).Decode(into)
	}
	if err != nil {
		// A list that was cut must not be taken for a store without the rest.
		return bucket.Lost(err)
	}
	return nil
}

// send sends a request, and returns a success. The caller closes its body. The body of the request is always closed: by
// the transport if the request was sent, which may be later than the answer.
func (b *objects) send(ctx context.Context, r *request) (*http.Response, error) {
	// A request that is not sent still owns its body.
	drop := func(err error) (*http.Response, error) {
		if r.body != nil {
			err = errors.Join(err, r.body.Close())
		}
		return nil, err
	}
	q, err := http.NewRequestWithContext(ctx, r.method, r.place, nil)
	if err != nil {
		return drop(errors.New("the name of the bucket or object is not valid in a URL"))
	}
	q.Header = r.header
	if b.tokens != nil {
		token, err := b.tokens.get(ctx)
		if err != nil {
			return drop(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
	}
	if r.body != nil {
		q.Body, q.ContentLength = r.body, r.size
	}
	answer, err := b.client.Do(q)
	if err != nil {
		return nil, bucket.Lost(err)
	}
	if answer.StatusCode >= http.StatusOK && answer.StatusCode < http.StatusMultipleChoices {
		return answer, nil
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, answerBytesMax))
	// The status is known, also if the text was cut.
	_ = errors.Join(err, answer.Body.Close())
	return nil, refusal(answer.StatusCode, text)
}

// refusal returns the error of package bucket for an answer that is not a success. Messages of the service name the
// account and the permission that it needs. They contain no token.
func refusal(status int, text []byte) error {
	var answer struct {
		Error struct {
			Message string
			Errors  []struct{ Reason string }
		}
	}
	// Answers to requests for contents are plain text.
	if json.Unmarshal(text, &answer) != nil {
		answer.Error.Message = string(text)
	}
	r := &bucket.Refusal{Status: status, Message: strings.TrimSpace(answer.Error.Message)}
	if len(answer.Error.Errors) > 0 {
		r.Code = answer.Error.Errors[0].Reason
	}
	switch status {
	// The object is shorter than it was.
	case http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("the object is too short: %w", io.ErrUnexpectedEOF)
	case http.StatusUnauthorized:
		r.Message = "The service rejects the credentials of the node: check GOOGLE_APPLICATION_CREDENTIALS in its " +
			"environment, or the service account of its machine, and its clock."
	case http.StatusForbidden:
		r.Message = fmt.Sprintf("Give the service account of the node the role Storage Object User for the bucket: %s",
			r.Message)
	}
	return r
}

// absent returns the error of a request for an object. The service answers 404 for an object and for a bucket that do
// not exist; a bucket that does not exist is no place without objects.
func absent(err error) error {
	var r *bucket.Refusal
	if errors.As(err, &r) && r.Status == http.StatusNotFound && !strings.Contains(r.Message, "bucket does not exist") {
		return fmt.Errorf("the object store has no such object: %w", fs.ErrNotExist)
	}
	return err
}

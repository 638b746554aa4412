package gcs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"cqld/backup/bucket"
)

// scope is what tokens permit: to read, write and remove objects, as far as the account may.
const scope = "https://www.googleapis.com/auth/devstorage.read_write"

// advice says what to do about credentials.
const advice = "set GOOGLE_APPLICATION_CREDENTIALS in the environment of the node to the file of a service account, " +
	"or assign its machine a service account"

// tokens obtains the tokens of the process. It is safe for concurrent use. A token is kept until shortly before it
// expires, after an hour at most. An error is not kept: the next request tries again, so a file that was corrected, or
// a role that was assigned meanwhile, needs no restart.
type tokens struct {
	transport http.RoundTripper
	mu        sync.Mutex
	source    oauth2.TokenSource // nil before the first request
}

// get returns a token that is valid for at least ten seconds.
func (t *tokens) get(ctx context.Context) (string, error) {
	source, err := t.find(ctx)
	if err != nil {
		return "", err
	}
	token, err := source.Token()
	var refused *oauth2.RetrieveError
	switch {
	case err == nil:
		return token.AccessToken, nil
	case errors.As(err, &refused) && refused.Response != nil &&
		refused.Response.StatusCode < http.StatusInternalServerError:
		// The text of the library has the whole answer.
		var answer struct{ Error string }
		_ = json.Unmarshal(refused.Body, &answer)
		return "", &bucket.CredentialsError{Reason: fmt.Sprintf("Google answers %d %.50q to the credentials of the "+
			"node: %s", refused.Response.StatusCode, answer.Error, advice)}
	}
	return "", bucket.Lost(fmt.Errorf("a token for the object store: %w", err))
}

// find returns the source of tokens. The search may ask the service of the machine, so Open does not do it.
func (t *tokens) find(ctx context.Context) (oauth2.TokenSource, error) {
	t.mu.Lock()
	source := t.source
	t.mu.Unlock()
	if source != nil {
		return source, nil
	}
	// The source keeps the context for its later requests, which its transport ends if they stall.
	ctx = context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, &http.Client{Transport: t.transport})
	found, err := google.FindDefaultCredentials(ctx, scope)
	if err != nil {
		return nil, &bucket.CredentialsError{Reason: fmt.Sprintf("the node has no credentials for Google Cloud "+
			"Storage: %s (%.200v)", advice, err)}
	}
	source = oauth2.ReuseTokenSource(nil, found.TokenSource)
	t.mu.Lock()
	defer t.mu.Unlock()
	// Two requests may have searched at the same time.
	if t.source == nil {
		t.source = source
	}
	return t.source, nil
}

package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"cqld/backup/bucket"
)

// secrets are the settings of a node for an account. At most one of key and sas is set; if none is, the identity of the
// process is used.
type secrets struct {
	account  string
	endpoint string // of the environment; empty means the public cloud
	key      string
	sas      string
}

// environment returns the secrets of the environment, whose variables are the ones that programs of Microsoft read. A
// connection string takes precedence over a key, and a key over a shared access signature (SAS).
func environment() (secrets, error) {
	if text := os.Getenv("AZURE_STORAGE_CONNECTION_STRING"); text != "" {
		return parseConnection(text)
	}
	s := secrets{account: os.Getenv("AZURE_STORAGE_ACCOUNT"), key: os.Getenv("AZURE_STORAGE_KEY")}
	if s.key == "" {
		s.sas = strings.TrimPrefix(os.Getenv("AZURE_STORAGE_SAS_TOKEN"), "?")
	}
	return s, nil
}

// parseConnection parses a connection string. Errors do not repeat it.
func parseConnection(text string) (secrets, error) {
	parts := map[string]string{}
	for part := range strings.SplitSeq(strings.Trim(text, "; "), ";") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return secrets{}, errors.New("AZURE_STORAGE_CONNECTION_STRING of the node is not NAME=VALUE;NAME=VALUE…")
		}
		parts[name] = value
	}
	s := secrets{account: parts["AccountName"], key: parts["AccountKey"],
		endpoint: strings.TrimRight(parts["BlobEndpoint"], "/")}
	if s.key == "" {
		s.sas = strings.TrimPrefix(parts["SharedAccessSignature"], "?")
	}
	if s.key == "" && s.sas == "" {
		return secrets{}, errors.New("AZURE_STORAGE_CONNECTION_STRING of the node has neither AccountKey nor " +
			"SharedAccessSignature")
	}
	if suffix := parts["EndpointSuffix"]; s.endpoint == "" && suffix != "" && s.account != "" {
		protocol := parts["DefaultEndpointsProtocol"]
		if protocol == "" {
			protocol = "https"
		}
		s.endpoint = protocol + "://" + s.account + ".blob." + suffix
	}
	return s, nil
}

// connect returns the client of a container. It sends no request: wrong credentials are errors of the first request,
// but what cannot be credentials is one now. Errors do not repeat any of it.
func connect(o Options) (*container.Client, error) {
	s, err := environment()
	if err != nil {
		return nil, err
	}
	if err := s.complete(o); err != nil {
		return nil, err
	}
	options := &container.ClientOptions{ClientOptions: clientOptions()}
	// The library escapes names of blobs only.
	place := s.endpoint + "/" + url.PathEscape(o.Container)
	switch {
	case s.key != "":
		credential, err := container.NewSharedKeyCredential(s.account, s.key)
		if err != nil {
			// The error may have a part of the key.
			return nil, errors.New("the key of the storage account is not base64: check AZURE_STORAGE_KEY or " +
				"AZURE_STORAGE_CONNECTION_STRING of the node")
		}
		return container.NewClientWithSharedKeyCredential(place, credential, options)
	case s.sas != "":
		client, err := container.NewClientWithNoCredential(place+"?"+s.sas, options)
		if err != nil {
			return nil, errors.New("AZURE_STORAGE_SAS_TOKEN of the node is not a shared access signature")
		}
		return client, nil
	}
	identity, err := assigned()
	if err != nil {
		return nil, err
	}
	return container.NewClient(place, identity, options)
}

// complete completes the account and the endpoint with the ones of a location, and refuses an endpoint that would learn
// a token.
//
// A location comes from an operator who may make backups, and who need not be trusted with the credentials of the node:
// with an endpoint of their own, they would receive a signature that reads all of the account. Keys are safe, because a
// signature of one request is of no use for another one.
func (s *secrets) complete(o Options) error {
	text := os.Getenv("AZURE_STORAGE_CONNECTION_STRING")
	if text != "" && o.Account != "" && s.account != "" && s.account != o.Account {
		return fmt.Errorf("the location names the account %.50q, and AZURE_STORAGE_CONNECTION_STRING of the node %.50q",
			o.Account, s.account)
	}
	if o.Account != "" {
		s.account = o.Account
	}
	if s.account == "" && (s.endpoint == "" || o.Endpoint != "") {
		return errors.New("no storage account: add ?account=ACCOUNT to the location, or set AZURE_STORAGE_ACCOUNT in " +
			"the environment of the node")
	}
	switch {
	case o.Endpoint != "":
		u, err := url.Parse(o.Endpoint)
		if err != nil {
			return errors.New("the endpoint is not a URL")
		}
		if s.key == "" && !(u.Scheme == "https" && microsoft(u.Hostname())) {
			return errors.New("the endpoint of the location is not Azure's, and would learn the token of the node: " +
				"use AZURE_STORAGE_KEY, or set the endpoint in AZURE_STORAGE_CONNECTION_STRING of the node")
		}
		s.endpoint = u.Scheme + "://" + u.Host
		if !strings.HasPrefix(u.Host, s.account+".") {
			s.endpoint += "/" + s.account
		}
	case s.endpoint == "":
		s.endpoint = "https://" + s.account + ".blob.core.windows.net"
	}
	return nil
}

// microsoft reports whether a host is of Azure Blob Storage in one of its clouds. Accounts there do not learn tokens of
// requests.
func microsoft(host string) bool {
	for _, domain := range []string{".core.windows.net", ".storage.azure.net", ".core.usgovcloudapi.net",
		".core.chinacloudapi.cn"} {
		if strings.HasSuffix(host, domain) {
			return true
		}
	}
	return false
}

// clientOptions returns the options of all clients. Package bucket repeats requests.
func clientOptions() policy.ClientOptions {
	return policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1},
		Transport: &http.Client{Transport: bucket.Transport()}}
}

// identity is an identity of the process, in Microsoft Entra ID. The library keeps its tokens until they expire.
type identity struct{ next azcore.TokenCredential }

// assigned returns the identity of the process: of an application with a secret (AZURE_TENANT_ID, AZURE_CLIENT_ID,
// AZURE_CLIENT_SECRET), of a pod (AZURE_FEDERATED_TOKEN_FILE), or of the machine, where AZURE_CLIENT_ID chooses one of
// several.
func assigned() (azcore.TokenCredential, error) {
	tenant, client := os.Getenv("AZURE_TENANT_ID"), os.Getenv("AZURE_CLIENT_ID")
	var next azcore.TokenCredential
	var err error
	switch secret := os.Getenv("AZURE_CLIENT_SECRET"); {
	case secret != "" && tenant != "" && client != "":
		next, err = azidentity.NewClientSecretCredential(tenant, client, secret,
			&azidentity.ClientSecretCredentialOptions{ClientOptions: clientOptions()})
	case os.Getenv("AZURE_FEDERATED_TOKEN_FILE") != "":
		next, err = azidentity.NewWorkloadIdentityCredential(
			&azidentity.WorkloadIdentityCredentialOptions{ClientOptions: clientOptions()})
	default:
		o := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: clientOptions()}
		if client != "" {
			o.ID = azidentity.ClientID(client)
		}
		next, err = azidentity.NewManagedIdentityCredential(o)
	}
	if err != nil {
		return nil, fmt.Errorf("the identity of the node: %w", err)
	}
	return identity{next}, nil
}

// GetToken implements azcore.TokenCredential.
func (i identity) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := i.next.GetToken(ctx, o)
	if err != nil {
		return token, &identityError{err}
	}
	return token, nil
}

// identityError is an error of an identity. It separates the service of identities from the object store, whose answers
// the library describes with the same types.
type identityError struct{ error }

// Unwrap returns the reason.
func (i *identityError) Unwrap() error { return i.error }

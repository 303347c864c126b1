package kubevirttest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed" // CRDs
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// CRDs are the kinds of KubeVirt and CDI, in YAML, for the API server.
//
//go:embed crds.yaml
var CRDs []byte

// rolesYAML is what the driver may do in its namespace, as the documentation says.
//
//go:embed role.yaml
var rolesYAML []byte

// Server is an API server that has the CRDs, and its administrator.
type Server struct {
	URL   string
	HTTP  *http.Client
	Token string
	CA    []byte // in PEM
}

// Connect returns the Server at a URL, whose certificate this authority has signed.
func Connect(at string, ca []byte, token string) Server {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	const connections = 100
	return Server{URL: at, CA: ca, Token: token, HTTP: &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: connections,
	}}}
}

// Object is an object of the API server.
type Object map[string]any

// problem is an answer of the API server other than a success.
type problem struct {
	status int
	text   string
}

// Error is the status and the answer.
func (p problem) Error() string { return fmt.Sprintf("HTTP status %d: %s", p.status, p.text) }

// call makes a call as the administrator.
func (s Server) call(ctx context.Context, method, path string, in any) (Object, error) {
	return s.send(ctx, method, path, s.Token, in)
}

// send makes a call with a token.
func (s Server) send(ctx context.Context, method, path, token string, in any) (Object, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, s.URL+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer, err := s.HTTP.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 != http.StatusOK/100 {
		return nil, problem{answer.StatusCode, string(text)}
	}
	var out Object
	return out, json.Unmarshal(text, &out)
}

// status is that of a failed call; 0 of one that did not fail.
func status(err error) int {
	if p, ok := err.(problem); ok { //nolint:errorlint // send returns it as it is
		return p.status
	}
	return 0
}

// items are the objects of a listing.
func (o Object) items() []Object {
	list, _ := o["items"].([]any)
	all := make([]Object, 0, len(list))
	for _, item := range list {
		if object, ok := item.(map[string]any); ok {
			all = append(all, object)
		}
	}
	return all
}

// at returns what is at a path such as "metadata.name"; nil if there is nothing.
func (o Object) at(path string) any {
	var value any = map[string]any(o)
	for part := range strings.SplitSeq(path, ".") {
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = object[part]
	}
	return value
}

// text is the text at a path; empty if there is none.
func (o Object) text(path string) string {
	text, _ := o.at(path).(string)
	return text
}

// list are the objects at a path.
func (o Object) list(path string) []Object { return Object{"items": o.at(path)}.items() }

// name of an object.
func (o Object) name() string { return o.text("metadata.name") }

// labels of an object.
func (o Object) labels() map[string]string {
	labels := map[string]string{}
	all, _ := o.at("metadata.labels").(map[string]any)
	for key, value := range all {
		labels[key], _ = value.(string)
	}
	return labels
}

// going reports whether an object is being deleted.
func (o Object) going() bool { return o.at("metadata.deletionTimestamp") != nil }

// escape is a name in a path.
func escape(name string) string { return url.PathEscape(name) }

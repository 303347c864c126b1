package kubevirttest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

// account is the name of the service account of the driver, and of its permissions.
const account = "machine-controller-manager"

// Namespace is a namespace of the API server in which a driver makes VMs. It is safe for
// concurrent use.
type Namespace struct {
	Server

	Name  string
	token string // of the service account

	Now func() time.Time // the clock of the played controllers

	mu       sync.Mutex
	moving   sync.Mutex
	behaves  Behaviour
	serial   int
	revoked  bool
	consoles map[string]string // by VM
	leases   map[string]int    // by VM
}

// NewNamespace makes a namespace with a service account that may do there what the driver has to.
func (s Server) NewNamespace(ctx context.Context, name string) (*Namespace, error) {
	n := &Namespace{Server: s, Name: name, Now: time.Now, consoles: map[string]string{}, leases: map[string]int{}}
	roles, err := permissions()
	if err != nil {
		return nil, err
	}
	named := func(name string) Object { return Object{"metadata": Object{"name": name}} }
	binding := func(name, kind string, role Object) Object {
		return Object{
			"metadata": Object{"name": name},
			"roleRef":  Object{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role.name()},
			"subjects": []Object{{"kind": "ServiceAccount", "name": account, "namespace": n.Name}},
		}
	}
	const rbac = "/apis/rbac.authorization.k8s.io/v1"
	for _, made := range []struct {
		path   string
		object Object
	}{
		{"/api/v1/namespaces", named(name)},
		{n.core("serviceaccounts"), named("default")},
		{n.core("serviceaccounts"), named(account)},
		{n.in(rbac, "roles"), roles[0]},
		{n.in(rbac, "rolebindings"), binding(account, "Role", roles[0])},
		{rbac + "/clusterroles", roles[1]},
		{rbac + "/clusterrolebindings", binding(name, "ClusterRole", roles[1])},
	} {
		_, err := s.call(ctx, http.MethodPost, made.path, made.object)
		if err != nil && status(err) != http.StatusConflict {
			return nil, fmt.Errorf("%s: %w", made.path, err)
		}
	}
	asked := Object{"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": Object{}}
	made, err := s.call(ctx, http.MethodPost, n.core("serviceaccounts")+"/"+account+"/token", asked)
	if err != nil {
		return nil, err
	}
	n.token = made.text("status.token")
	return n, nil
}

// permissions are the roles of the driver: that in the namespace, and that in the cluster.
func permissions() ([]Object, error) {
	var roles []Object
	for text := range bytes.SplitSeq(rolesYAML, []byte("---\n")) {
		var role map[string]any
		if err := yaml.Unmarshal(text, &role); err != nil {
			return nil, err
		}
		roles = append(roles, role)
	}
	return roles, nil
}

// in is the path of a collection of the namespace.
func (n *Namespace) in(api, plural string) string {
	return api + "/namespaces/" + n.Name + "/" + plural
}

func (n *Namespace) core(plural string) string { return n.in("/api/v1", plural) }

// The collections of KubeVirt and CDI.
func (n *Namespace) vms() string { return n.in("/apis/kubevirt.io/v1", "virtualmachines") }

func (n *Namespace) instances() string {
	return n.in("/apis/kubevirt.io/v1", "virtualmachineinstances")
}

func (n *Namespace) volumes() string { return n.in("/apis/cdi.kubevirt.io/v1beta1", "datavolumes") }

// Kubeconfig is that of the service account.
func (n *Namespace) Kubeconfig() []byte { return n.kubeconfig(n.URL, n.CA) }

// kubeconfig is one for the namespace behind some server.
func (n *Namespace) kubeconfig(server string, ca []byte) []byte {
	text, err := yaml.Marshal(Object{
		"apiVersion": "v1", "kind": "Config", "current-context": "infra",
		"clusters": []Object{{"name": "infra", "cluster": Object{
			"server": server, "certificate-authority-data": base64.StdEncoding.EncodeToString(ca),
		}}},
		"users":    []Object{{"name": account, "user": Object{"token": n.token}}},
		"contexts": []Object{{"name": "infra", "context": Object{"cluster": "infra", "user": account, "namespace": n.Name}}},
	})
	if err != nil {
		panic(err) // an Object can be written
	}
	return text
}

// Revoke makes the token of the service account one that the API server does not know.
func (n *Namespace) Revoke() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.revoked = true
}

// RoundTrip answers a call of a driver: the API server does, or virt-api and the kubelet where it
// would ask them.
func (n *Namespace) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	revoked := n.revoked
	n.mu.Unlock()
	if revoked {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer revoked")
	}
	rest, logs := strings.CutPrefix(r.URL.Path, n.core("pods")+"/")
	action, acts := strings.CutPrefix(r.URL.Path, n.in("/apis/subresources.kubevirt.io/v1", ""))
	switch {
	case revoked:
	case logs && strings.HasSuffix(rest, "/log"):
		return n.played(r, part{"", "pods", strings.TrimSuffix(rest, "/log"), "log"}, n.log), nil
	case r.Method == http.MethodPost && r.URL.Path == n.vms():
		if refusal, err := n.admit(r); refusal != nil || err != nil {
			return refusal, err
		}
	case acts:
		parts := strings.Split(action, "/") // plural, name, what
		const form = 3
		if len(parts) == form {
			return n.played(r, part{"subresources.kubevirt.io", parts[0], parts[1], parts[2]}, n.act), nil
		}
	}
	return n.HTTP.Transport.RoundTrip(r)
}

// part is what of an object a call is about.
type part struct{ group, plural, name, what string }

// played answers a call that the API server hands on, if its user has the right to it.
func (n *Namespace) played(r *http.Request, p part,
	do func(r *http.Request, name, what string) *http.Response,
) *http.Response {
	verb := map[string]string{http.MethodGet: "get", http.MethodPut: "update"}[r.Method]
	review := Object{
		"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
		"spec": Object{"resourceAttributes": Object{
			"namespace": n.Name, "verb": verb, "group": p.group, "resource": p.plural, "subresource": p.what,
			"name": p.name,
		}},
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	const reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	answer, err := n.send(r.Context(), http.MethodPost, reviews, token, review)
	switch {
	case err != nil:
		return refuse(max(status(err), http.StatusUnauthorized), "Unauthorized", "Unauthorized")
	case answer.at("status.allowed") != true:
		return refuse(http.StatusForbidden, "Forbidden", p.plural+"/"+p.what+" is forbidden")
	}
	return do(r, p.name, p.what)
}

// refuse is an answer with a status of Kubernetes.
func refuse(code int, reason, message string) *http.Response {
	text, err := json.Marshal(Object{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason, "code": code,
	})
	if err != nil {
		panic(err)
	}
	return answer(code, "application/json", text)
}

func answer(code int, kind string, body []byte) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
	}
}

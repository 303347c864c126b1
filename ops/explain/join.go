package explain

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/token"
)

// Prefixes of the users that kubelets are.
const (
	tokenUser = "system:bootstrap:"
	nodeUser  = "system:node:"
)

// TokenID is the ID of a machine's bootstrap token; empty if it is not known.
func (o *Object) TokenID() string {
	if o.OwnerID == "" {
		return ""
	}
	return token.ID(o.OwnerID, o.Attempt)
}

// join looks for why a machine with a VM has no Node: the API server, the token, the
// certificate and the name of the node, in this order. What could not be read decides nothing.
func (f *Facts) join(o *Object, c Condition) Condition {
	because := func(reason, format string, args ...any) Condition {
		c.Reason, c.Message = reason, fmt.Sprintf(format, args...)
		return c
	}
	if f.TargetError != "" {
		return because(reasonTargetError, "Nodes cannot be read: %s", f.TargetError)
	}
	if name := f.otherNode(o); name != "" {
		return because(reasonOtherName, "the VM has joined as Node %s, not as Node %s", name, o.Node)
	}
	request := f.request(o)
	if request == nil {
		return f.noRequest(o, c)
	}
	name, approved := requestedNode(request), len(request.Status.Certificate) > 0
	switch {
	case name != "" && o.Node != "" && name != o.Node:
		return because(reasonOtherName, "the kubelet asks to join as Node %s, not as Node %s", name, o.Node)
	case !approved:
		return because(reasonNotApproved, "CertificateSigningRequest %s has no certificate", request.Name)
	}
	c.Message = joined(c.Message, "the bootstrap token was used, and CertificateSigningRequest "+request.Name+
		" has a certificate")
	return c
}

// noRequest is a kubelet that has not been heard of: its token may have expired.
func (f *Facts) noRequest(o *Object, c Condition) Condition {
	id := o.TokenID()
	known, read := f.Tokens[id], f.TokensRead[id]
	_, exists := f.Tokens[id]
	switch {
	case id == "" || !read:
	case !exists && o.API == Native:
		c.Message = joined(c.Message, "bootstrap token "+id+" does not exist: the boot data uses none, or it was removed")
	case exists && !known.Expires.IsZero() && !known.Expires.After(f.Now):
		c.Reason = reasonTokenExpired
		c.Message = joined(c.Message, fmt.Sprintf("bootstrap token %s expired at %s and was not used", id,
			known.Expires.UTC().Format(time.RFC3339)))
	case exists:
		c.Message = joined(c.Message, "bootstrap token "+id+" is valid, and no kubelet has used it")
	}
	return c
}

// otherNode is the name of a Node with the machine's providerID and another name.
func (f *Facts) otherNode(o *Object) string {
	if o.ProviderID == "" || o.Node == "" {
		return ""
	}
	for _, n := range f.indexed().nodeIDs[last(o.ProviderID)] {
		if sameVM(n.Spec.ProviderID, o.ProviderID) && n.Name != o.Node {
			return n.Name
		}
	}
	return ""
}

// sameVM compares providerIDs of one cloud in any of their forms: all end in the ID of the VM.
func sameVM(a, b string) bool {
	cloudA, restA, okA := strings.Cut(a, "://")
	cloudB, restB, okB := strings.Cut(b, "://")
	return okA && okB && cloudA == cloudB && last(restA) == last(restB) && last(restA) != ""
}

func last(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// request is the newest request for a certificate by the machine's bootstrap token.
func (f *Facts) request(o *Object) *certificatesv1.CertificateSigningRequest {
	id := o.TokenID()
	if id == "" {
		return nil
	}
	var found *certificatesv1.CertificateSigningRequest
	for i := range f.Requests {
		r := &f.Requests[i]
		if r.Spec.Username == tokenUser+id && (found == nil || found.CreationTimestamp.Before(&r.CreationTimestamp)) {
			found = r
		}
	}
	return found
}

// requestedNode is the name of the node that a request is for; empty if it cannot be read.
func requestedNode(r *certificatesv1.CertificateSigningRequest) string {
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil {
		return ""
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return ""
	}
	name, _ := strings.CutPrefix(parsed.Subject.CommonName, nodeUser)
	return name
}

func joined(texts ...string) string {
	var kept []string
	for _, t := range texts {
		if t != "" {
			kept = append(kept, t)
		}
	}
	return strings.Join(kept, "; ")
}

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

const (
	// absent is the name that MCM uses: no object can have it.
	absent = "dummy_name"
	// defaultNamespace is used where Machines of all namespaces are managed.
	defaultNamespace = "default"
	// shortestProbe is the shortest timeout of a check.
	shortestProbe = time.Second
)

// failure is why a check failed; zero if it did not.
type failure struct {
	kind string // the same for errors that differ in a port or a time only
	text string // what cannot be listed, and the error
}

// probe makes the requests that the caches of both clusters depend on, and returns why
// one failed. It lists an object that does not exist, so the
// answers are small. It returns within a third of the timeout, so that a server that hangs
// is noticed in time.
func (c *Controller) probe(ctx context.Context) failure {
	ctx, cancel := context.WithTimeout(ctx, max(c.Options.Timeout/3, shortestProbe))
	defer cancel()
	namespace := c.Namespace
	if namespace == "" {
		namespace = defaultNamespace
	}
	name := client.MatchingFields{"metadata.name": absent}
	control := c.Live.List(ctx, &machinev1.MachineList{}, name, client.InNamespace(namespace))
	nodes := c.Target.Live.List(ctx, &corev1.NodeList{}, name)
	return down("Machines of the control cluster", control).and(down("Nodes of the target cluster", nodes))
}

// down returns err with what cannot be listed because of it. As in MCM every error
// counts: with a token that has expired, or without the right to list nodes, the caches
// are as stale as with a server that is down.
func down(what string, err error) failure {
	if err == nil {
		return failure{}
	}
	return failure{kind: what + ": " + kindOf(err), text: fmt.Sprintf("%s cannot be listed: %v", what, err)}
}

// kindOf is what does not differ between two errors with the same cause: the reason of
// the API server, or the innermost error, which names no port.
func kindOf(err error) string {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return fmt.Sprint(status.ErrStatus.Code, status.ErrStatus.Reason)
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

// and returns both failures as one.
func (f failure) and(other failure) failure {
	switch {
	case f == failure{}:
		return other
	case other == failure{}:
		return f
	}
	return failure{kind: f.kind + "; " + other.kind, text: f.text + "; " + other.text}
}

// passes reports whether an error of the API server may pass by itself. One that refuses
// the request because of its content or its sender does not.
func passes(err error) bool {
	status, answered := errors.AsType[*apierrors.StatusError](err)
	return !answered || status.ErrStatus.Code >= http.StatusInternalServerError ||
		apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) || apierrors.IsUnauthorized(err)
}

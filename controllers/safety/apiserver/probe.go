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

// probe makes the requests that the caches of both clusters depend on, and returns why
// one failed; nil if both succeeded. It lists an object that does not exist, so the
// answers are small. It returns within a third of the timeout, so that a server that hangs
// is noticed in time.
func (c *Controller) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(c.Options.Timeout/3, shortestProbe))
	defer cancel()
	namespace := c.Namespace
	if namespace == "" {
		namespace = defaultNamespace
	}
	name := client.MatchingFields{"metadata.name": absent}
	control := c.Live.List(ctx, &machinev1.MachineList{}, name, client.InNamespace(namespace))
	nodes := c.Target.Live.List(ctx, &corev1.NodeList{}, name)
	return errors.Join(down("control", control), down("target", nodes))
}

// down returns err with the cluster whose API server it is about. As in MCM every error
// counts: with a token that has expired, or without the right to list nodes, the caches
// are as stale as with a server that is down.
func down(cluster string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s API server: %w", cluster, err)
}

// passes reports whether an error of the API server may pass by itself. One that refuses
// the request because of its content or its sender does not.
func passes(err error) bool {
	status, answered := errors.AsType[*apierrors.StatusError](err)
	return !answered || status.ErrStatus.Code >= http.StatusInternalServerError ||
		apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) || apierrors.IsUnauthorized(err)
}

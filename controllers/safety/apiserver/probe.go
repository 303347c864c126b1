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

// probe gets an object that does not exist from both API servers, and returns why one of
// them is unreachable; nil if both answered. It returns within a third of the timeout,
// so that a server that hangs is noticed in time.
func (c *Controller) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(c.Options.Timeout/3, shortestProbe))
	defer cancel()
	namespace := c.Namespace
	if namespace == "" {
		namespace = defaultNamespace
	}
	control := c.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: absent}, &machinev1.Machine{})
	nodes := c.Target.Live.Get(ctx, client.ObjectKey{Name: absent}, &corev1.Node{})
	return errors.Join(outage("control", control), outage("target", nodes))
}

// outage returns err if it means that the API server is unreachable. A server that
// answers Unauthorized, Forbidden or TooManyRequests is up: the kubelets can still
// report to it.
func outage(cluster string, err error) error {
	status, answered := errors.AsType[*apierrors.StatusError](err)
	if err == nil || answered && status.ErrStatus.Code < http.StatusInternalServerError {
		return nil
	}
	return fmt.Errorf("%s API server: %w", cluster, err)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// How long an API server may take to answer at the start, and how often it is
// asked. The first answer usually decides.
const (
	startTimeout = 10 * time.Second
	startPoll    = 250 * time.Millisecond
)

// waitHealthy returns once the API server says that it is healthy, or an error
// that says what it said instead.
func waitHealthy(ctx context.Context, flag string, config *rest.Config) error {
	client, err := bare(config)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	last := errors.New("no answer")
	err = wait.PollUntilContextTimeout(ctx, startPoll, startTimeout, true, func(ctx context.Context) (bool, error) {
		status := 0
		last = client.Get().AbsPath("/healthz").Do(ctx).StatusCode(&status).Error()
		if last == nil && status != http.StatusOK {
			last = fmt.Errorf("status %d", status)
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("--%s: API server %s was not healthy within %s: %w", flag, config.Host, startTimeout, last)
	}
	return nil
}

// bare returns a client for requests outside of any API group. Each ends in time
// for another.
func bare(config *rest.Config) (rest.Interface, error) {
	c := rest.CopyConfig(config)
	c.Timeout = startTimeout / 2
	clients, err := discovery.NewDiscoveryClientForConfig(c)
	if err != nil {
		return nil, err
	}
	return clients.RESTClient(), nil
}

// waitServed returns the plural names of the native kinds that the API server
// serves. CRDs that have just been applied take a moment to be.
func waitServed(ctx context.Context, d discovery.DiscoveryInterface) (map[string]bool, error) {
	var found map[string]bool
	err := wait.PollUntilContextTimeout(ctx, startPoll, startTimeout, true, func(context.Context) (bool, error) {
		var err error
		found, err = served(d)
		return len(found) > 0, err
	})
	if err != nil && !wait.Interrupted(err) {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the API server serves no %s: apply the CRDs in config/crd first", machinev1.GroupVersion)
	}
	return found, nil
}

func served(d discovery.DiscoveryInterface) (map[string]bool, error) {
	list, err := d.ServerResourcesForGroupVersion(machinev1.GroupVersion.String())
	found := map[string]bool{}
	if apierrors.IsNotFound(err) {
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", machinev1.GroupVersion, err)
	}
	for _, r := range list.APIResources {
		found[r.Name] = true
	}
	return found, nil
}

package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/capmcm/cluster-api-provider-mcm/controllers"
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

// waitServed returns which kinds the API server serves, once that is enough for
// some API group. CRDs that have just been applied take a moment to be served.
func waitServed(ctx context.Context, d discovery.DiscoveryInterface) (func(controllers.Kind) bool, error) {
	var found map[controllers.Kind]bool
	err := wait.PollUntilContextTimeout(ctx, startPoll, startTimeout, true, func(context.Context) (bool, error) {
		var err error
		found, err = served(d)
		return slices.ContainsFunc(controllers.APIGroups(), func(group controllers.APIGroup) bool {
			return !slices.ContainsFunc(group.Needs(), func(k controllers.Kind) bool { return !found[k] })
		}), err
	})
	if err != nil && !wait.Interrupted(err) {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errors.New("the API server serves none of this project's kinds: apply the CRDs in config/crd first")
	}
	return func(k controllers.Kind) bool { return found[k] }, nil
}

// served are the kinds of all groups, and those of IPAM, that the API server serves.
func served(d discovery.DiscoveryInterface) (map[controllers.Kind]bool, error) {
	found, asked := map[controllers.Kind]bool{}, map[schema.GroupVersion]bool{}
	kinds := controllers.IPAMKinds()
	for _, group := range controllers.APIGroups() {
		kinds = append(kinds, group.Needs()...)
	}
	for _, k := range kinds {
		if asked[k.Version] {
			continue
		}
		asked[k.Version] = true
		list, err := d.ServerResourcesForGroupVersion(k.Version.String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("discover %s: %w", k.Version, err)
		}
		for _, r := range list.APIResources {
			found[controllers.Kind{Plural: r.Name, Version: k.Version}] = true
		}
	}
	return found, nil
}

package manager

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// evictingClient is a client whose evictions are answered at once. Any other
// request that the API server answers with a time to wait is repeated after that
// time by the client library, ten times. For an eviction this is an answer like
// others: the drain comes back later, and its worker must not sleep until then.
type evictingClient struct {
	client.Client
	pods rest.Interface
}

// newEvictingClient returns c with evictions that go to the cluster of config.
func newEvictingClient(c client.Client, config *rest.Config, h *http.Client) (client.Client, error) {
	clients, err := kubernetes.NewForConfigAndClient(config, h)
	if err != nil {
		return nil, fmt.Errorf("client for evictions: %w", err)
	}
	return evictingClient{c, clients.CoreV1().RESTClient()}, nil
}

// SubResource returns the client of a subresource.
func (c evictingClient) SubResource(name string) client.SubResourceClient {
	of := c.Client.SubResource(name)
	if name != "eviction" {
		return of
	}
	return evictions{of, c.pods}
}

// evictions is the client of that subresource of pods.
type evictions struct {
	client.SubResourceClient
	pods rest.Interface
}

// Create evicts the pod.
func (e evictions) Create(ctx context.Context, pod, eviction client.Object,
	options ...client.SubResourceCreateOption,
) error {
	o := (&client.SubResourceCreateOptions{}).ApplyOptions(options).AsCreateOptions()
	return e.pods.Post().Namespace(pod.GetNamespace()).Resource("pods").Name(pod.GetName()).SubResource("eviction").
		VersionedParams(o, scheme.ParameterCodec).
		MaxRetries(0).Body(eviction).Do(ctx).Error()
}

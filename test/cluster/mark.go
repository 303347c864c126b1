package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster/audit"
)

var errNoAudit = errors.New("the cluster was started without audit log")

// Mark returns a place in the audit log that requests answered before this call
// lie before. It makes one request of its own, as the administrator, and waits
// for its entry: an API server writes an entry a moment after the answer.
func (c *Cluster) Mark(ctx context.Context) (audit.Mark, error) {
	if !c.options.Audit {
		return 0, errNoAudit
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	from, err := c.Audit().End()
	if err != nil {
		return 0, err
	}
	agent := "audit-mark/" + randomHex()
	config := c.Config()
	config.UserAgent = agent
	clients, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return 0, err
	}
	if _, err := clients.RESTClient().Get().AbsPath("/version").DoRaw(ctx); err != nil {
		return 0, fmt.Errorf("mark the audit log: %w", err)
	}
	var at audit.Mark
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		var found bool
		var err error
		at, found, err = c.Audit().Find(from, audit.UserAgent(agent))
		return found, err
	})
	return at, err
}

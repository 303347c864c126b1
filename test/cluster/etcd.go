package cluster

import (
	"context"
	"fmt"

	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
)

func (c *Cluster) startEtcd(ctx context.Context) error {
	return process.RetryPorts(func() error {
		ports, err := process.FreePorts(2)
		if err != nil {
			return err
		}
		url := fmt.Sprintf("http://%s:%d", localhost, ports[0])
		peers := fmt.Sprintf("http://%s:%d", localhost, ports[1])
		p, err := c.startReady(ctx, etcdProgram, c.assets.Etcd, []string{
			"--name=test",
			"--data-dir=" + c.etcdFolder(),
			"--listen-client-urls=" + url,
			"--advertise-client-urls=" + url,
			"--listen-peer-urls=" + peers,
			"--initial-advertise-peer-urls=" + peers,
			"--initial-cluster=test=" + peers,
			"--unsafe-no-fsync",
			"--log-level=warn",
		}, func(ctx context.Context) error { return process.Probe(ctx, prober(nil), url+"/health", "") })
		if err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.etcd, c.etcdURL = p, url
		return nil
	})
}

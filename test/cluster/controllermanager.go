package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
)

func (c *Cluster) startControllerManager(ctx context.Context) error {
	kubeconfig, err := c.KubeconfigFor("system:kube-controller-manager", "system:masters")
	if err != nil {
		return err
	}
	return process.RetryPorts(func() error {
		port, err := process.FreePort()
		if err != nil {
			return err
		}
		flags := withFlags(c.controllerManagerFlags(kubeconfig, port), c.options.ControllerManagerFlags)
		// Its certificate is its own, made at the start: there is nothing to trust.
		client := prober(&tls.Config{InsecureSkipVerify: true})
		url := fmt.Sprintf("https://%s:%d/healthz", localhost, port)
		p, err := c.startReady(ctx, controllerManagerProgram, c.assets.ControllerManager, flags,
			func(ctx context.Context) error { return process.Probe(ctx, client, url, "") })
		if err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.controllerManager = p
		return nil
	})
}

func (c *Cluster) controllerManagerFlags(kubeconfig string, port int) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--controllers=" + strings.Join(c.options.Controllers, ","),
		"--leader-elect=false",
		"--bind-address=" + localhost,
		fmt.Sprintf("--secure-port=%d", port),
		"--cert-dir=" + filepath.Join(c.dir, "controller-manager-certs"),
		"--root-ca-file=" + c.pki.caCert,
		"--cluster-signing-cert-file=" + c.pki.caCert,
		"--cluster-signing-key-file=" + c.pki.caKey,
		"--service-account-private-key-file=" + c.pki.key,
		// The default is a folder of the host, which it would create.
		"--flex-volume-plugin-dir=" + filepath.Join(c.dir, "flexvolumes"),
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		"--profiling=false",
	}
}

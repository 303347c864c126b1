package manager

import (
	"fmt"
	"os"
	"reflect"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// serviceAccountNamespace is where a pod reads which namespace it runs in.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// configs are how to reach both clusters.
type configs struct {
	control *rest.Config
	target  *rest.Config // nil: there is no target cluster
	// same is set when both are one cluster, spoken to as one user, so that one
	// client and one cache serve for both.
	same bool
}

// configs reads the kubeconfigs that the flags name; userAgent is who makes the requests.
func (c *clusterOptions) configs(userAgent string) (configs, error) {
	var found configs
	var err error
	if c.target != noTarget {
		if found.target, err = c.read("target-kubeconfig", c.target, userAgent); err != nil {
			return configs{}, err
		}
	}
	switch c.control {
	case "":
		found.control = rest.CopyConfig(found.target)
	case inCluster:
		found.control, err = c.read("control-kubeconfig", "", userAgent)
	default:
		found.control, err = c.read("control-kubeconfig", c.control, userAgent)
	}
	found.same = found.target != nil && reflect.DeepEqual(found.control, found.target)
	return found, err
}

// read returns the configuration in the file at path, or that of the cluster
// this runs in for an empty path.
func (c *clusterOptions) read(flag, path, userAgent string) (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if path != "" {
		config, err = clientcmd.BuildConfigFromFlags("", path)
	}
	if err != nil {
		return nil, fmt.Errorf("--%s=%q: %w", flag, path, err)
	}
	config.QPS = -1 // the API server's own flow control is fairer than ours
	if c.qps > 0 {
		config.QPS, config.Burst = c.qps, c.burst
	}
	config.UserAgent = userAgent
	// An API server warns with every request; the log has each warning once.
	config.WarningHandlerWithContext = log.NewKubeAPIWarningLogger(log.KubeAPIWarningLoggerOptions{Deduplicate: true})
	return config, nil
}

// leaseNamespace is the namespace of the leases: as asked for, else that of the
// objects, where MCM has them. A manager of all namespaces has them where it runs.
func (o *Options) leaseNamespace() string {
	for _, namespace := range []string{o.election.namespace, o.clusters.namespace, ownNamespace()} {
		if namespace != "" {
			return namespace
		}
	}
	return "default"
}

// ownNamespace is the namespace this pod runs in; empty outside of pods.
func ownNamespace() string {
	if namespace := os.Getenv("POD_NAMESPACE"); namespace != "" {
		return namespace
	}
	content, err := os.ReadFile(serviceAccountNamespace)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

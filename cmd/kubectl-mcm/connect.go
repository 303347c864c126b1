package main

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/inspect"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/plan"
)

// common are the flags of all commands.
type common struct {
	connect connector
	config  *genericclioptions.ConfigFlags // those of kubectl
	target  string                         // path of a kubeconfig; empty: the cluster with the objects has the nodes
	output  string
}

// clusters are the two clusters that the APIs work on, read from their API servers.
type clusters struct {
	control, target client.Client
	namespace       string
}

// connector reaches them.
type connector func(*common) (*clusters, error)

// addFlags adds kubectl's connection flags, and those of this plugin. Commands that only
// read have an --output of their own.
func (c *common) addFlags(flags *pflag.FlagSet) {
	c.config = genericclioptions.NewConfigFlags(true)
	c.config.AddFlags(flags)
	flags.StringVar(&c.target, "target-kubeconfig", "",
		"kubeconfig of the cluster with the nodes; empty means the cluster with the objects")
	flags.StringVarP(&c.output, "output", "o", formatTable, "output: "+strings.Join(formats, ", "))
}

// validate refuses what no command can do.
func (c *common) validate() error {
	if !slices.Contains(formats, c.output) {
		return fmt.Errorf("--output=%q is none of %s", c.output, strings.Join(formats, ", "))
	}
	return nil
}

// connect reads the kubeconfigs and returns clients without caches.
func connect(c *common) (*clusters, error) {
	config, err := c.config.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	out := &clusters{}
	if out.namespace, _, err = c.config.ToRawKubeConfigLoader().Namespace(); err != nil {
		return nil, fmt.Errorf("--namespace: %w", err)
	}
	if out.control, err = newClient(config); err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	if out.target = out.control; c.target == "" {
		return out, nil
	}
	if config, err = clientcmd.BuildConfigFromFlags("", c.target); err != nil {
		return nil, fmt.Errorf("--target-kubeconfig=%q: %w", c.target, err)
	}
	config.Timeout = requestTimeout(c.config)
	if out.target, err = newClient(config); err != nil {
		return nil, fmt.Errorf("--target-kubeconfig=%q: %w", c.target, err)
	}
	return out, nil
}

// writtenNamespace is that of --namespace, without a look into a kubeconfig.
func (c *common) writtenNamespace() string {
	return cmp.Or(*c.config.Namespace, metav1.NamespaceDefault)
}

// readers reaches the clusters for commands that only read.
func (c *common) readers() (inspect.Clusters, error) {
	found, err := c.connect(c)
	if err != nil {
		return inspect.Clusters{}, err
	}
	return inspect.Clusters{Control: found.control, Target: found.target, Namespace: found.namespace}, nil
}

// planners reaches the clusters for the command that plans changes.
func (c *common) planners() (plan.Clusters, error) {
	found, err := c.connect(c)
	if err != nil {
		return plan.Clusters{}, err
	}
	return plan.Clusters{Control: found.control, Target: found.target, Namespace: found.namespace}, nil
}

// apiServer returns a client for any path of the API server with the objects, and its URL.
func (c *common) apiServer() (*http.Client, *url.URL, error) {
	config, err := c.config.ToRESTConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	server, err := rest.HTTPClientFor(config)
	return server, base, err
}

// requestTimeout is --request-timeout, for the cluster with the nodes too; 0 means none.
func requestTimeout(config *genericclioptions.ConfigFlags) time.Duration {
	timeout, err := clientcmd.ParseTimeout(*config.Timeout)
	if err != nil {
		return 0 // the client of the other cluster has refused it
	}
	return timeout
}

func newClient(config *rest.Config) (client.Client, error) {
	config.QPS = -1 // the API server's own flow control is fairer than ours
	config.UserAgent = "kubectl-mcm/" + version
	s, err := newScheme()
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: s})
}

func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, machinev1.AddToScheme, infrav1.AddToScheme,
		bootstrapv1.AddToScheme,
		controlplanev1.AddToScheme, clusterv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Command kubectl-mcm is a plugin of kubectl: kubectl mcm. It explains what machines wait
// for, moves pools of machines between the two APIs of this project, reports whether a fleet of
// Machine Controller Manager's can be taken over and given back, and recovers the machines
// of VMs that have lost theirs.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/bundle"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/console"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/dashboard"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/inspect"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/output"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/plan"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/userdata"
	"github.com/capmcm/cluster-api-provider-mcm/cmd/kubectl-mcm/validate"
)

// version is set by the linker.
var version = "devel"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	ctrl.SetLogger(klog.Background())
	if err := newRoot(connect).ExecuteContext(ctx); err != nil {
		os.Exit(exitCode(os.Stderr, err))
	}
}

// exitCode is that of a command that returned err, which is printed if it is a failure.
func exitCode(out io.Writer, err error) int {
	if code, ok := errors.AsType[output.ExitCodeError](err); ok {
		return int(code)
	}
	fmt.Fprintln(out, "kubectl mcm:", err)
	if coded, ok := errors.AsType[*output.CodedError](err); ok {
		return coded.Code
	}
	return 1
}

// newRoot is the command with all that is below it. connector reaches the clusters.
func newRoot(connector connector) *cobra.Command {
	root := &cobra.Command{
		Use:     "kubectl-mcm",
		Short:   "Explain pools of machines, move them between the native API and Cluster API, and recover lost machines",
		Version: version, SilenceUsage: true, SilenceErrors: true,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl mcm"},
	}
	c := &common{connect: connector}
	c.addFlags(root.PersistentFlags())
	root.AddCommand(newMigrate(c), newTakeover(c), newOrphans(c), newRecover(c))
	readers := inspect.Deps{Connect: c.readers, Now: time.Now, APIServer: c.apiServer}
	root.AddCommand(inspect.Commands(readers)...)
	root.AddCommand(plan.New(plan.Deps{Connect: c.planners, Now: time.Now, Complete: readers.CompletePool}))
	root.AddCommand(bundle.New(readers, version), validate.New(c.writtenNamespace), console.New(readers.Kept),
		userdata.New(), dashboard.New(readers))
	return root
}

// onlyHelps makes a command whose work is done by those below it fail for a word that
// is none of them; without one it helps.
func onlyHelps(cmd *cobra.Command) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unknown command %q for %q: --help tells those that there are", args[0], cmd.CommandPath())
		}
		return cmd.Help()
	}
	return cmd
}

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

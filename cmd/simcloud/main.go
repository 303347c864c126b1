// Simcloud serves a simulated cloud over HTTP and plays the kubelets of its
// VMs, and the controller that deletes Nodes whose VM is gone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		slog.Error("Simulated cloud ended", "error", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string) error {
	o, err := parse(args, os.Stderr)
	if err != nil {
		return err
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	f := newFleet(o.kubelets, client)
	c, journal, err := openCloud(o, f.changed)
	if err != nil {
		return err
	}
	defer func() { _ = journal.Close() }()
	f.cloud = c
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := announce(listener.Addr().String(), o.addressFile); err != nil {
		return err
	}
	background, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.run(background)
	}()
	err = serve(ctx, listener, handler(c, f))
	cancel()
	<-done
	return err
}

// openCloud returns the cloud that the state file remembers, or a new one, and
// the file that remembers it from now on.
func openCloud(o options, changed func(sim.Resource)) (*sim.Cloud, *journal, error) {
	j := &journal{path: o.stateFile}
	c := sim.New(sim.Options{
		Clock: clock.RealClock{}, Seed: o.seed, Settings: o.settings, OnChange: changed,
		OnRecord: j.record(),
	})
	if err := j.open(c, o); err != nil {
		return nil, nil, err
	}
	return c, j, nil
}

// handler serves the cloud, and beside it the kubelets' own endpoint.
func handler(c *sim.Cloud, f *fleet) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", sim.Handler(c, sleep))
	mux.HandleFunc("GET /admin/vms/{id}/kubelet", f.showKubelet)
	mux.HandleFunc("PATCH /admin/vms/{id}/kubelet", f.patchKubelet)
	return mux
}

// sleep waits until d has passed or ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// serve answers requests until ctx ends, and then those that have arrived.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	const headers, goodbye = 10 * time.Second, 2 * time.Second
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: headers,
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	if err := server.Shutdown(last); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("shut down: %w", err)
	}
	return nil
}

// announce prints where the cloud listens: on standard output, and in a file that
// appears when it is whole.
func announce(address, file string) error {
	if _, err := fmt.Fprintln(os.Stdout, address); err != nil {
		return fmt.Errorf("print address: %w", err)
	}
	if file == "" {
		return nil
	}
	return replace(file, []byte(address+"\n"))
}

// replace writes a file at once or not at all.
func replace(file string, text []byte) error {
	part := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".part")
	if err := os.WriteFile(part, text, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if err := os.Rename(part, file); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

// client returns a client of the cluster that the VMs join; nil without a
// kubeconfig.
func (o options) client() (kubernetes.Interface, error) {
	if o.kubeconfig == "" && !o.inCluster {
		return nil, nil //nolint:nilnil // there is none, which is allowed
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig) // those of the pod where there is no file
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	return newClient(config)
}

// newClient returns a client without a limit of its own: thousands of kubelets
// share it.
func newClient(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.UserAgent = -1, "simcloud"
	config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf",
		"application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build client: %w", err)
	}
	return client, nil
}

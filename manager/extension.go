package manager

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/exp/runtime/server"

	"github.com/capmcm/cluster-api-provider-mcm/controllers"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/inplaceupdate"
)

// extensionComponent is who the Events of the runtime extension are from.
const extensionComponent = "mcm-runtime-extension"

// extensionOptions make this process a runtime extension of Cluster API, and nothing
// else.
type extensionOptions struct {
	port    int // 0: it is not
	certDir string
}

func (o *Options) addExtensionFlags(fs *pflag.FlagSet) {
	x := &o.extension
	fs.IntVar(&x.port, "runtime-extension-port", x.port,
		"port on which Cluster API's hooks for updates in place are answered, over TLS; then no controller runs and no "+
			"lease is held. 0 answers none")
	fs.StringVar(&x.certDir, "runtime-extension-cert-dir", x.certDir,
		"folder with the certificate tls.crt and the key tls.key of that port")
}

func (x *extensionOptions) validate(p *problems, o *Options) {
	if x.port < 0 || x.port > maxPort {
		p.add("runtime-extension-port", "must be between 0 and %d, is %d", maxPort, x.port)
	}
	if x.port == 0 {
		return
	}
	if x.certDir == "" {
		p.add("runtime-extension-cert-dir", "must be given with --runtime-extension-port")
	}
	if len(o.controllers) != 1 || o.controllers[0] != "*" {
		p.add("controllers", "must not be given with --runtime-extension-port: a runtime extension runs in a process "+
			"of its own")
	}
}

// needed fails unless all that the runtime extension reads is served.
func needed(served func(controllers.Kind) bool) error {
	var missing []string
	for _, k := range controllers.Infrastructure.Needs() {
		if !served(k) {
			missing = append(missing, k.String())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("--runtime-extension-port: the API server does not serve %s: install the infrastructure "+
			"provider first", strings.Join(missing, ", "))
	}
	return nil
}

// extend adds the runtime extension, if this process is one. It reads everything
// from API servers, since it is asked rarely and about what has just changed.
func (w *wiring) extend(ctx context.Context) error {
	if w.extension.port == 0 {
		return nil
	}
	workloads, err := w.connectWorkloads(ctx, w.manager, w.manager.GetAPIReader(), nil)
	if err != nil {
		return err
	}
	catalog, err := inplaceupdate.Catalog()
	if err != nil {
		return err
	}
	s, err := server.New(server.Options{
		Catalog: catalog, Host: w.server.address, Port: w.extension.port,
		CertDir: w.extension.certDir,
	})
	if err != nil {
		return fmt.Errorf("--runtime-extension-port: %w", err)
	}
	err = inplaceupdate.New(inplaceupdate.Deps{
		Client: w.manager.GetClient(), Live: w.manager.GetAPIReader(), Clusters: workloads, Clock: clock.RealClock{},
		Events: w.recorders(w.events, w.manager.GetScheme())(extensionComponent), NodeAgentTimeout: w.machines.inPlaceUpdate,
	}).AddTo(s)
	if err != nil {
		return err
	}
	return w.manager.Add(s)
}

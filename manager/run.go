package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"go.opentelemetry.io/otel"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/internal/tracing"
)

// garbagePercent is how much garbage there may be, of what lives, before it is
// collected. Most of what lives are caches, which grow with the machines and change
// little: Go's usual 100 would double them, and CPU time is not what is short.
const garbagePercent = 50

// Run runs the controllers, with these drivers and no others, until ctx ends, which is
// no error. Then it blocks until the reconciles that have begun are finished, at most
// for --graceful-shutdown-timeout. MachineClasses name the drivers; it is an error if
// two of them share a name.
//
// It returns an error at once when an option is not valid, and within seconds when an
// API server does not answer or serves none of the kinds. It returns an error later when
// it loses its leases; then the process has to end, since a request of it may still be
// on its way.
//
// Where the environment asks for traces (docs/monitoring.md), they are exported, the last of them before
// Run returns.
//
// Run sets up the logging of the process, and the garbage collector unless GOGC is
// set. A process therefore calls it once; a second call returns an error.
func Run(ctx context.Context, o *Options, drivers ...cloud.Driver) error {
	if err := o.validate(); err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	if err := logsapi.ValidateAndApply(o.logs, nil); err != nil {
		return fmt.Errorf("flags of logging: %w", err)
	}
	defer klog.Flush()
	ctrl.SetLogger(klog.Background())
	klog.Background().Info("Starting", "version", o.version, "namespace", o.clusters.namespace,
		"drivers", namesOf(drivers))
	stop, err := o.startTracing(ctx, os.Getenv)
	if err != nil {
		return err
	}
	defer stop()
	return o.work(ctx, drivers)
}

// startTracing sets up traces if the environment asks for them. The returned function exports what
// is left, which takes a few seconds at most, and is never nil.
func (o *Options) startTracing(ctx context.Context, getenv func(string) string) (stop func(), err error) {
	stop = func() {}
	wanted, err := tracing.Wanted(getenv)
	if err != nil || !wanted {
		return stop, err
	}
	exporter, err := tracing.NewExporter(ctx, getenv)
	if err != nil {
		return stop, err
	}
	tracer, err := tracing.New(ctx, exporter, o.program, o.version)
	if err != nil {
		return stop, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		klog.Background().Info("Warning: traces are not exported", "cause", err.Error())
	}))
	klog.Background().Info("Exporting traces")
	o.tracer = tracer
	return func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), exportTimeout)
		defer cancel()
		if err := tracer.Shutdown(last); err != nil {
			klog.Background().Info("Warning: the last traces are not exported", "cause", err.Error())
		}
	}, nil
}

// work does what Run does, once logging is set up.
func (o *Options) work(ctx context.Context, drivers []cloud.Driver) error {
	for {
		handedOver, err := o.term(ctx, drivers)
		if err != nil || !handedOver {
			return err
		}
	}
}

// term stands by and leads once. It reports whether it ended to let the sidecar lead:
// then nothing of it runs any more, its leases are released, and another term may begin.
func (o *Options) term(ctx context.Context, drivers []cloud.Driver) (handedOver bool, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	p, err := o.build(ctx, stop, drivers)
	if err != nil {
		return false, err
	}
	defer p.events.Shutdown()
	err = p.manager.Start(ctx)
	return errors.Is(context.Cause(ctx), errHandOver), err
}

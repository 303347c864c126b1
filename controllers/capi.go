package controllers

import (
	"slices"

	classes "github.com/capmcm/cluster-api-provider-mcm/controllers/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/mcmcluster"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/mcmconfig"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/mcmexternalcontrolplane"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/mcmmachine"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/mcmmachinetemplate"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/mcmremediation"
)

func addMCMCluster(s *setup) error {
	return mcmcluster.New(mcmcluster.Deps{
		Client: s.Client, Live: s.Live, Classes: s.classes, Clock: s.Clock, Events: s.Events("mcmcluster-controller"),
		WatchFilter: s.WatchFilter,
	}).SetupWithManager(s.mgr, s.Workers("mcmcluster"))
}

func addMCMMachine(s *setup) error {
	return mcmmachine.New(mcmmachine.Deps{
		Namespace: s.Namespace, Client: s.Client, Live: s.Live, Clusters: s.Clusters, Clouds: s.Clouds, Clock: s.Clock,
		Fence:  s.Fence,
		Events: s.Events("mcmmachine-controller"), IPAM: !slices.ContainsFunc(IPAMKinds(), s.unserved),
		Options: mcmmachine.Options{
			WatchFilter:            s.WatchFilter,
			ResourceExhaustedRetry: s.Options.Machine.ResourceExhaustedRetry,
		},
		Fallback: s.fallback, Evidence: s.evidence,
	}).SetupWithManager(s.mgr, s.Workers("mcmmachine"))
}

func addMCMMachineTemplate(s *setup) error {
	return mcmmachinetemplate.New(mcmmachinetemplate.Deps{
		Client: s.Client, Live: s.Live, Clouds: s.Clouds, Clock: s.Clock,
		Events: s.Events("mcmmachinetemplate-controller"), WatchFilter: s.WatchFilter, Fallback: s.fallback,
	}).SetupWithManager(s.mgr, s.Workers("mcmmachinetemplate"))
}

// addMCMRemediation adds nothing where the kind is not served: the CRDs of the bundle before
// did not have it, and without them all other controllers work.
func addMCMRemediation(s *setup) error {
	if slices.ContainsFunc(remediationKinds(), s.unserved) {
		return nil
	}
	return mcmremediation.New(mcmremediation.Deps{
		Client: s.Client, Live: s.Live, Clouds: s.Clouds, Clock: s.Clock, Events: s.Events("mcmremediation-controller"),
		Options: mcmremediation.Options{
			WatchFilter:   s.WatchFilter,
			IgnoreOutages: s.Options.Machine.IgnoreOutages, OutageLimit: s.Options.Machine.OutageLimit,
		},
	}).SetupWithManager(s.mgr, s.Workers("mcmremediation"))
}

func addMCMClass(s *setup) error {
	return classes.NewForClusterAPI(classes.Deps{
		Client: s.Client, Live: s.Live, Events: s.Events("mcmclass-controller"),
	}).SetupWithManager(s.mgr, s.Workers("mcmclass"))
}

func addMCMConfig(s *setup) error {
	return mcmconfig.New(mcmconfig.Deps{
		Client: s.Client, Live: s.Live, Clusters: s.Clusters, Classes: s.classes, Clock: s.Clock, Rand: s.Rand,
		Events: s.Events("mcmconfig-controller"), WatchFilter: s.WatchFilter,
		TokenExtraGroups: s.Options.Machine.BootstrapTokenExtraGroups,
	}).SetupWithManager(s.mgr, s.Workers("mcmconfig"))
}

func addMCMExternalControlPlane(s *setup) error {
	return mcmexternalcontrolplane.New(mcmexternalcontrolplane.Deps{
		Client: s.Client, Live: s.Live, Clusters: s.Clusters, Config: s.mgr.GetConfig(), Clock: s.Clock,
		Events: s.Events("mcmexternalcontrolplane-controller"), WatchFilter: s.WatchFilter,
	}).SetupWithManager(s.mgr, s.Workers("mcmexternalcontrolplane"))
}

package fields

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// Prefixes of the autoscaler's annotations, which each API has in its own group.
const (
	nativeBounds      = machinev1.NodeGroupAnnotationPrefix
	ClusterAPIBounds  = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-"
	nativeScaling     = machinev1.AutoscalingAnnotationPrefix
	ClusterAPIScaling = "cluster.x-k8s.io/autoscaling-options-"
	gardenerScaling   = "autoscaler.gardener.cloud/"
	clusterAPIPrefix  = "cluster.x-k8s.io/"
	revisionPrefix    = "machinedeployment.clusters.x-k8s.io/"
)

// foreign are prefixes of labels and annotations that belong to the native API or
// to a tool that writes its own on each object. They are not copied.
func foreign() []string {
	return []string{
		machinev1.MCMPrefix, machinev1.MCMNodePrefix, machinev1.MCMSafetyPrefix, machinev1.MCMDeploymentPrefix,
		"deployment.kubernetes.io/", machinev1.PriorityAnnotation, machinev1.LastAppliedConfigurationAnnotation,
		machinev1.OurPrefix,
	}
}

// portable returns the entries that mean nothing to either API.
func portable(all map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range all {
		if !hasPrefix(key, foreign()) && !strings.HasPrefix(key, clusterAPIPrefix) &&
			!strings.HasPrefix(key, revisionPrefix) {
			out[key] = value
		}
	}
	return out
}

func hasPrefix(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}

// annotation is a row for an annotation: its name on each API, and what becomes of it. In
// texts {} is the other name.
type annotation struct {
	native, clusterAPI             string // empty: that API does not have it
	prefix                         bool   // the names are prefixes of names
	toClusterAPI, toNative         bool   // copied with its value
	leavesNative, leavesClusterAPI outcome
}

const upstreamText = "stays for Gardener's autoscaler; upstream's reads {}, which gets the same value"

// headAnnotations are annotations of MachineDeployments, and of MachineSets of their own.
// Of two rows that write the same annotation, the later wins.
var headAnnotations = []annotation{
	{ // moved with the record
		native: nativeBounds, clusterAPI: ClusterAPIBounds, prefix: true,
		leavesNative:     kept("becomes {}; the pool has neither while it is between APIs"),
		leavesClusterAPI: kept("becomes {}; the pool has neither while it is between APIs"),
	},
	gardenerOption("scale-down-utilization-threshold", "scaledownutilizationthreshold"),
	gardenerOption("scale-down-gpu-utilization-threshold", "scaledowngpuutilizationthreshold"),
	gardenerOption("scale-down-unneeded-time", "scaledownunneededtime"),
	gardenerOption("scale-down-unready-time", "scaledownunreadytime"),
	gardenerOption("max-node-provision-time", "maxnodeprovisiontime"),
	{
		native: nativeScaling, clusterAPI: ClusterAPIScaling, prefix: true, toClusterAPI: true, toNative: true,
		leavesNative: kept("becomes {}"), leavesClusterAPI: kept("becomes {}"),
	},
	{
		native: machinev1.ProviderIDFormAnnotation,
		leavesNative: replaced("providerIDs have the Node's form on Cluster API " +
			"anyway; after finish and a way back it has to be set again"),
	},
	{
		native: machinev1.OfferedCapacityAnnotation,
		leavesNative: replaced("status.capacity of the MCMMachineTemplate tells " +
			"what a node will be like; labels and taints stay as annotations"),
	},
	{native: machinev1.EffectiveCreationTimeoutAnnotation, leavesNative: replaced("becomes " +
		"spec.checks.nodeStartupTimeoutSeconds of the MachineHealthCheck")},
	{
		native: machinev1.MaxReplacementsAnnotation,
		leavesNative: lost("the MachineHealthCheck replaces one machine " +
			"at a time; raise spec.remediation.maxInFlight of the MachineDeployment"),
	},
	{native: machinev1.FallbackClassesAnnotation, leavesNative: kept("becomes fallbackClassRefs of the " +
		"MCMMachineTemplates, and is the annotation again on the way back")},
	{native: machinev1.SurgeFallbackAnnotation, leavesNative: lost("Cluster API waits for capacity: set " +
		"maxSurge to 0 and maxUnavailable to 1 where there is none")},
	{native: machinev1.EffectiveCreationTimeoutAppliedAnnotation, leavesNative: replaced(noGrowthText)},
	{native: machinev1.AppliedCreationTimeoutAnnotation, leavesNative: replaced(noGrowthText)},
	{native: machinev1.ReplaceCycleCountAnnotation, leavesNative: replaced(noGrowthText)},
	{native: machinev1.ReplaceCycleCountAppliedAnnotation, leavesNative: replaced(noGrowthText)},
	{native: machinev1.FailedRolloutAnnotation, leavesNative: replaced(noPauseText)},
	{native: machinev1.RolloutPausedAnnotation, leavesNative: replaced(noPauseText)},
}

const noGrowthText = "nodeStartupTimeoutSeconds of the MachineHealthCheck does not grow by itself"

const noPauseText = "Cluster API does not pause a rollout by itself; set spec.paused"

func gardenerOption(gardeners, upstreams string) annotation {
	return annotation{
		native: gardenerScaling + gardeners, clusterAPI: ClusterAPIScaling + upstreams, toClusterAPI: true,
		leavesNative: replaced(upstreamText),
	}
}

// machineAnnotations are annotations of Machines that the native API does nothing for.
var machineAnnotations = []annotation{
	{
		clusterAPI: clusterv1.MachineSkipRemediationAnnotation,
		leavesClusterAPI: lost("the native API replaces an unhealthy " +
			"machine although this asks it not to"),
	},
	{
		clusterAPI: clusterv1.ExcludeNodeDrainingAnnotation,
		leavesClusterAPI: lost("the native API drains each node that can " +
			"be drained"),
	},
	{clusterAPI: clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation, leavesClusterAPI: lost("the native API waits until " +
		"volumes are detached, for --machine-pv-detach-timeout")},
	{clusterAPI: clusterv1.PreDrainDeleteHookAnnotationPrefix, prefix: true, leavesClusterAPI: lost(hooksText)},
	{clusterAPI: clusterv1.PreTerminateDeleteHookAnnotationPrefix, prefix: true, leavesClusterAPI: lost(hooksText)},
}

const hooksText = "the native API waits for no hooks when it deletes a machine"

// translate returns what key is called on the other API if the row, which calls it name, is about it.
func (a annotation) translate(key, name, other string) (string, bool) {
	rest, ok := strings.CutPrefix(key, name)
	return other + rest, ok && name != "" && (rest == "" || a.prefix)
}

// annotationsToClusterAPI returns those that are copied, by their names on Cluster API.
func annotationsToClusterAPI(all map[string]string) map[string]string {
	out := map[string]string{}
	for _, a := range headAnnotations {
		for key, value := range all {
			if other, ok := a.translate(key, a.native, a.clusterAPI); ok && a.toClusterAPI {
				out[other] = value
			}
		}
	}
	return out
}

// annotationsToNative is the reverse, for upstream's autoscaler.
func annotationsToNative(all map[string]string) map[string]string {
	out := map[string]string{}
	for _, a := range headAnnotations {
		for key, value := range all {
			if other, ok := a.translate(key, a.clusterAPI, a.native); ok && a.toNative {
				out[other] = value
			}
		}
	}
	return out
}

// judgeAnnotations returns what becomes of the native annotations of a head.
func judgeAnnotations(object string, all map[string]string) (found []migration.Finding) {
	for _, key := range objects.Keys(all) {
		for _, a := range headAnnotations {
			if other, ok := a.translate(key, a.native, a.clusterAPI); ok && a.leavesNative.level != "" {
				found = append(found, a.leavesNative.annotation(object, key, other))
			}
		}
	}
	return found
}

// judgeClusterAPIAnnotations returns what becomes of annotations of Cluster API.
func judgeClusterAPIAnnotations(object string, all map[string]string, table []annotation) (found []migration.Finding) {
	for _, key := range objects.Keys(all) {
		for _, a := range table {
			if other, ok := a.translate(key, a.clusterAPI, a.native); ok && a.leavesClusterAPI.level != "" {
				found = append(found, a.leavesClusterAPI.annotation(object, key, other))
			}
		}
	}
	return found
}

// annotation is what o says of an annotation that is called otherwise on the other API.
func (o outcome) annotation(object, key, other string) migration.Finding {
	o.text = strings.ReplaceAll(o.text, "{}", other)
	return o.finding(object, "metadata.annotations["+key+"]")
}

// dropClusterAPILabels takes away what Cluster API itself puts on machines and templates.
func dropClusterAPILabels(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	for _, key := range []string{
		clusterv1.ClusterNameLabel, clusterv1.MachineDeploymentNameLabel, clusterv1.MachineSetNameLabel, clusterv1.WatchLabel,
	} {
		delete(out, key)
	}
	return out
}

// offered are the capacity annotations that the native API wrote itself.
func offered(annotations map[string]string) map[string]string {
	var out map[string]string
	if json.Unmarshal([]byte(annotations[machinev1.OfferedCapacityAnnotation]), &out) != nil {
		return nil // somebody else's, then
	}
	return out
}

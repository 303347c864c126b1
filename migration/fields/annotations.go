package fields

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
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

// gardenerOptions are the settings of Gardener's autoscaler by their upstream names.
func gardenerOptions() map[string]string {
	return map[string]string{
		gardenerScaling + "scale-down-utilization-threshold":     ClusterAPIScaling + "scaledownutilizationthreshold",
		gardenerScaling + "scale-down-gpu-utilization-threshold": ClusterAPIScaling + "scaledowngpuutilizationthreshold",
		gardenerScaling + "scale-down-unneeded-time":             ClusterAPIScaling + "scaledownunneededtime",
		gardenerScaling + "scale-down-unready-time":              ClusterAPIScaling + "scaledownunreadytime",
		gardenerScaling + "max-node-provision-time":              ClusterAPIScaling + "maxnodeprovisiontime",
	}
}

// scalingToClusterAPI returns the autoscaler's settings, without its bounds, in
// Cluster API's words.
func scalingToClusterAPI(annotations map[string]string) map[string]string {
	out := map[string]string{}
	for key, upstream := range gardenerOptions() {
		if value, there := annotations[key]; there {
			out[upstream] = value
		}
	}
	for key, value := range annotations {
		if option, ok := strings.CutPrefix(key, nativeScaling); ok {
			out[ClusterAPIScaling+option] = value
		}
	}
	return out
}

// scalingToNative is the reverse, for upstream's autoscaler.
func scalingToNative(annotations map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range annotations {
		if option, ok := strings.CutPrefix(key, ClusterAPIScaling); ok {
			out[nativeScaling+option] = value
		}
	}
	return out
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

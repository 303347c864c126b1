package explain

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// reasonPaused is Cluster API's reason of the condition Paused.
const reasonPaused = clusterv1.PausedReason

// OfCluster is a Cluster of Cluster API.
func OfCluster(c *clusterv1.Cluster) *Object {
	o := object(ClusterAPI, clusterv1.GroupVersion, KindCluster, c)
	o.Conditions, o.Cluster = append(o.Conditions, conditions(c.Status.Conditions)...), c.Name
	if ptr.Deref(c.Spec.Paused, false) {
		o.pause("spec.paused of Cluster " + c.Name + " is true")
	}
	return o
}

// OfCAPIDeployment is a MachineDeployment of Cluster API.
func OfCAPIDeployment(d *clusterv1.MachineDeployment) *Object {
	o := ofCluster(KindDeployment, d, d.Spec.ClusterName, d.Status.Conditions)
	o.Desired, o.Ready = ptr.Deref(d.Spec.Replicas, 1), ptr.Deref(d.Status.ReadyReplicas, 0)
	o.Updated, o.Pool = ptr.Deref(d.Status.UpToDateReplicas, 0), d.Name
	return o
}

// OfCAPISet is a MachineSet of Cluster API.
func OfCAPISet(s *clusterv1.MachineSet) *Object {
	o := ofCluster(KindSet, s, s.Spec.ClusterName, s.Status.Conditions)
	o.Desired, o.Ready = ptr.Deref(s.Spec.Replicas, 1), ptr.Deref(s.Status.ReadyReplicas, 0)
	o.Updated = o.Desired
	return o
}

// OfCAPIMachine is a Machine of Cluster API.
func OfCAPIMachine(m *clusterv1.Machine) *Object {
	o := ofCluster(KindMachine, m, m.Spec.ClusterName, m.Status.Conditions)
	o.Phase, o.PhaseSince = m.Status.Phase, m.Status.LastUpdated.Time
	o.Node, o.ProviderID, o.Joined = m.Status.NodeRef.Name, m.Spec.ProviderID, m.Status.NodeRef.Name != ""
	o.Pool = m.Labels[clusterv1.MachineDeploymentNameLabel]
	if seconds := m.Spec.Deletion.NodeDrainTimeoutSeconds; seconds != nil && *seconds > 0 {
		o.Drain = new(time.Duration(*seconds) * time.Second)
	}
	if d := m.Status.Deletion; d != nil {
		o.DrainBegan, o.DetachBegan = d.NodeDrainStartTime.Time, d.WaitForNodeVolumeDetachStartTime.Time
	}
	return o
}

// OfMCMMachine is the infrastructure of a Machine of Cluster API.
func OfMCMMachine(m *infrav1.MCMMachine) *Object {
	o := object(ClusterAPI, infrav1.GroupVersion, KindMCMMachine, m)
	o.Conditions = append(o.Conditions, conditions(m.Status.Conditions)...)
	o.Cluster, o.ProviderID = m.Labels[clusterv1.ClusterNameLabel], m.Spec.ProviderID
	o.Class, o.OwnerID = m.Status.MachineClassName, machinev1.OwnerID(m)
	if o.Class == "" {
		o.Class = m.Spec.MachineClassRef.Name
	}
	o.pauseByAnnotation(m)
	return o
}

// OfMCMConfig is the boot data of a Machine of Cluster API.
func OfMCMConfig(c *bootstrapv1.MCMConfig) *Object {
	o := object(ClusterAPI, bootstrapv1.GroupVersion, KindMCMConfig, c)
	o.Conditions = append(o.Conditions, conditions(c.Status.Conditions)...)
	o.Cluster = c.Labels[clusterv1.ClusterNameLabel]
	o.OwnerID, o.Attempt = string(c.UID), 1
	if c.Spec.MachineClassRef != nil {
		o.Class = c.Spec.MachineClassRef.Name
	}
	o.pauseByAnnotation(c)
	return o
}

// OfMCMCluster is the infrastructure of a Cluster.
func OfMCMCluster(c *infrav1.MCMCluster) *Object {
	o := object(ClusterAPI, infrav1.GroupVersion, KindMCMCluster, c)
	o.Conditions = append(o.Conditions, conditions(c.Status.Conditions)...)
	o.Cluster = c.Labels[clusterv1.ClusterNameLabel]
	return o
}

// OfControlPlane is the control plane of a Cluster that somebody else runs.
func OfControlPlane(c *controlplanev1.MCMExternalControlPlane) *Object {
	o := object(ClusterAPI, controlplanev1.GroupVersion, KindControlPlane, c)
	o.Conditions = append(o.Conditions, conditions(c.Status.Conditions)...)
	o.Cluster = c.Labels[clusterv1.ClusterNameLabel]
	return o
}

func ofCluster(kind string, m metav1.Object, cluster string, all []metav1.Condition) *Object {
	o := object(ClusterAPI, clusterv1.GroupVersion, kind, m)
	o.Conditions, o.Cluster = append(o.Conditions, conditions(all)...), cluster
	o.pauseByAnnotation(m)
	return o
}

// pauseByAnnotation shows a pause that only an annotation requests.
func (o *Object) pauseByAnnotation(m metav1.Object) {
	value, paused := m.GetAnnotations()[clusterv1.PausedAnnotation]
	switch {
	case paused && value != "":
		o.pause("annotation " + clusterv1.PausedAnnotation + " is set to " + value)
	case paused:
		o.pause("annotation " + clusterv1.PausedAnnotation + " is set")
	}
}

// counterpart is the object that o was made from by a migration, or the other way round; nil if
// there is none. Both exist from the begin of the migration until kubectl mcm migrate finish.
func (f *Facts) counterpart(o *Object) *Object {
	if from := f.indexed().byUID[o.CopiedFrom]; from != nil {
		return from
	}
	return f.indexed().copies[o.UID]
}

// pauseOf is the condition of a pause, or of the migration that has paused o. A Cluster is never
// paused by one.
func (f *Facts) pauseOf(o *Object, c Condition) Condition {
	other := f.counterpart(o)
	if c.Reason != reasonPaused || other == nil || o.Kind == KindCluster {
		return c
	}
	c.Reason, c.Message = reasonMigration, joined(c.Message, "the counterpart on the other API is "+other.String())
	return c
}

// pause makes the condition Paused True, whether or not a controller has written it.
func (o *Object) pause(message string) {
	o.Conditions = slices.DeleteFunc(o.Conditions, func(c Condition) bool { return c.Type == conditionPaused })
	o.Conditions = append(o.Conditions, Condition{
		Type: conditionPaused, Status: metav1.ConditionTrue, Reason: reasonPaused, Message: message,
	})
}

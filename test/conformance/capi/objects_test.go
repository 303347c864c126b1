package capi

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// The objects, most of them of one machine m, as core leaves them for a provider, each with a generation that
// conditions have to repeat.
const (
	namespace  = "ns"
	generation = 3
	bootText   = "#cloud-config\npassword: correct-horse-battery\n"
	bootMark   = "correct-horse-battery"
)

func objectMeta(name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(uid), Generation: generation,
		Labels: map[string]string{clusterv1.ClusterNameLabel: "c1"},
	}
}

// theCluster is provisioned, and its control plane is initialized.
func theCluster() *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: objectMeta("c1", "cluster-uid")}
	c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group,
		Kind:     "MCMCluster", Name: "c1",
	}
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: controlplanev1.GroupVersion.Group,
		Kind:     "MCMExternalControlPlane", Name: "c1",
	}
	c.Status.Initialization.InfrastructureProvisioned = new(true)
	meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
		Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue,
		Reason: clusterv1.ClusterControlPlaneInitializedReason,
	})
	return c
}

func clusterOwner() []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c1",
		UID: "cluster-uid",
	}}
}

func theMCMCluster() *infrav1.MCMCluster {
	c := &infrav1.MCMCluster{ObjectMeta: objectMeta("c1", "infra-uid")}
	c.OwnerReferences = clusterOwner()
	return c
}

func machineOwner() []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m",
		UID: "machine-m", Controller: new(true),
	}}
}

func theMachine() *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: objectMeta("m", "machine-m")}
	m.Spec.ClusterName = "c1"
	m.Spec.Bootstrap.DataSecretName = new("boot-m")
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: bootstrapv1.GroupVersion.Group,
		Kind:     "MCMConfig", Name: "m",
	}
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: infrav1.GroupVersion.Group,
		Kind:     "MCMMachine", Name: "m",
	}
	return m
}

func theMCMMachine(created time.Time) *infrav1.MCMMachine {
	o := &infrav1.MCMMachine{ObjectMeta: objectMeta("m", "uid-m")}
	o.CreationTimestamp = metav1.NewTime(created)
	o.OwnerReferences = machineOwner()
	o.Spec.MachineClassRef.Name = "small"
	return o
}

// bootData is what a bootstrap provider has made for a Machine.
func bootData() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "boot-m"}, Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": []byte(bootText)},
	}
}

// theClass is a class of the demo account; more are further fields of its spec.
func theClass(name string, more ...string) *machinev1.MachineClass {
	c := &machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		UID: types.UID("class-" + name),
	}, Provider: "sim"}
	c.SecretRef = &corev1.SecretReference{Name: "small", Namespace: namespace}
	fields := ""
	for _, f := range more {
		fields += f + ","
	}
	c.ProviderSpec.Raw = []byte(`{"endpoint":"http://sim","region":"sim-1","zone":"sim-1a",` +
		`"instanceType":"small","image":"linux-1",` + fields +
		`"tags":{"kubernetes.io/cluster/test":"1","kubernetes.io/role/node":"1"}}`)
	return c
}

func theCredentials() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "small"}, Data: map[string][]byte{
		"accountID": []byte("demo"), "secretKey": []byte("demo-secret"),
	}}
}

func theTemplate() *infrav1.MCMMachineTemplate {
	o := &infrav1.MCMMachineTemplate{ObjectMeta: objectMeta("t", "template-uid")}
	o.OwnerReferences = clusterOwner()
	o.Spec.Template.Spec.MachineClassRef.Name = "small"
	return o
}

// theConfig boots with the user data of theUserData.
func theConfig() *bootstrapv1.MCMConfig {
	o := &bootstrapv1.MCMConfig{ObjectMeta: objectMeta("m", "config-m")}
	o.OwnerReferences = machineOwner()
	o.Spec.UserDataSecretRef = &bootstrapv1.NameReference{Name: "user-data"}
	return o
}

func theUserData() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "user-data"}, Data: map[string][]byte{
		machinev1.UserDataKey: []byte("#cloud-config\nhostname: <<MACHINE_NAME>>\ntoken: <<BOOTSTRAP_TOKEN>>\n"),
	}}
}

func theControlPlane() *controlplanev1.MCMExternalControlPlane {
	o := &controlplanev1.MCMExternalControlPlane{ObjectMeta: objectMeta("c1", "control-plane-uid")}
	o.OwnerReferences = clusterOwner()
	o.Spec.KubeconfigSecretRef = &controlplanev1.NameReference{Name: "given"}
	return o
}

// theKubeconfig is what a user gives, with that user in it.
func theKubeconfig(user string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "given"},
		Data: map[string][]byte{"value": []byte(`apiVersion: v1
kind: Config
clusters:
- name: prod
  cluster: {server: "https://api.example.com:6443", certificate-authority-data: YSBDQQ==}
users:
- name: admin
  user: ` + user + `
contexts:
- name: main
  context: {cluster: prod, user: admin}
current-context: main
`)},
	}
}

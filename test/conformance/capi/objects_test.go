package capi

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

// The objects, most of them of one machine m, as core leaves them for a provider, each
// with a generation that conditions have to repeat.
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

// onServer gives an object what an API server gives it.
func onServer[O metav1.Object](o O) {
	o.SetNamespace(namespace)
	o.SetGeneration(generation)
}

// theCluster is provisioned, and its control plane is initialized.
func theCluster() *clusterv1.Cluster { return fixture.Cluster("c1", onServer) }

func clusterOwner() []metav1.OwnerReference {
	return []metav1.OwnerReference{fixture.ClusterOwner("c1")}
}

func theMCMCluster() *infrav1.MCMCluster { return fixture.MCMCluster("c1", onServer) }

func machineOwner() []metav1.OwnerReference {
	return []metav1.OwnerReference{fixture.CAPIMachineOwner("m")}
}

func theMachine() *clusterv1.Machine { return fixture.CAPIMachine("m", "c1", onServer) }

func theMCMMachine(created time.Time) *infrav1.MCMMachine {
	o := fixture.MCMMachine("m", "c1", "small", onServer)
	o.CreationTimestamp = metav1.NewTime(created)
	return o
}

// bootData is what a bootstrap provider has made for a Machine.
func bootData() *corev1.Secret {
	return fixture.BootSecret("m", bootText, fixture.In[*corev1.Secret](namespace))
}

// theClass is a class of the demo account; options change it.
func theClass(name string, options ...func(*machinev1.MachineClass)) *machinev1.MachineClass {
	c := fixture.MachineClass(name, append(options, fixture.In[*machinev1.MachineClass](namespace))...)
	c.SecretRef = &corev1.SecretReference{Name: "small", Namespace: namespace}
	return c
}

func theCredentials() *corev1.Secret {
	return fixture.Secret("small", map[string]string{"accountID": "demo", "secretKey": "demo-secret"},
		fixture.In[*corev1.Secret](namespace))
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
	return fixture.Secret("user-data", map[string]string{
		machinev1.UserDataKey: "#cloud-config\nhostname: <<MACHINE_NAME>>\ntoken: <<BOOTSTRAP_TOKEN>>\n",
	}, fixture.In[*corev1.Secret](namespace))
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

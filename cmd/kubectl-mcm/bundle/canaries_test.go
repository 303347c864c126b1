package bundle

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

// canary is in every secret of a test, followed by where it stands.
const canary = "c4n4ry"

// secretly is a secret that stands somewhere.
func secretly(where string) string { return canary + "-" + where + "-0123456789" }

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// log is that of a manager, in the forms that its lines have.
func log() string {
	return strings.Join([]string{
		canary + "MIIE", "-----END RSA PRIVATE KEY-----", // the log begins within a key
		`I0101 12:00:00.000000 a.go:1] "Created VM" machine="workers-1" token="` + secretly("log quoted") + `"`,
		`{"msg":"Call failed","error":"GET /: password=` + secretly("logjson") + `, status 401"}`,
		`E0101 12:00:00.000000 a.go:2] "Boot" userData=<`, "\t" + secretly("logblock"), "\t" + secretly("logblock2"), " >",
		`Authorization: Token ` + secretly("logheader"),
		`Get "https://bucket.example/boot?X-Amz-Credential=` + secretly("logquery") + `&X-Amz-Signature=` +
			secretly("logsig") + `"`,
		`curl -H "X-Auth-Token: ` + secretly("logcurl") + `" https://user:` + secretly("loguser") + `@cloud.example/`,
		`Bearer ` + secretly("logbearer"),
		`web token eyJhbGciOiJ9.` + canary + `.a, account AKIA` + strings.ToUpper(canary[:4]+canary+canary),
		`admin_password: two words and ` + secretly("logline"),
		`started as manager --api-token ` + secretly("logflag") + ` --v=2`,
		`-----BEGIN PRIVATE KEY-----`, secretly("logpem"), `-----END PRIVATE KEY-----`,
		`boot data: ` + encode("#cloud-config\nruncmd: ["+secretly("logbase64")+"]\n"),
		`#cloud-config`, `write_files:`, `- path: /etc/a`, `  mode: ` + secretly("logcloudconfig"), ``,
		`joins with abcdef.0123456789abcdef`,
		`the cloud repeats ` + secretly("spec") + ` without a name`,
		`I0101 12:00:00.000000 a.go:3] "Last line"`, "",
	}, "\n")
}

// secretAnnotations are annotations as users and tools write them.
func secretAnnotations(where string) map[string]string {
	return map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": `{"spec":"` + secretly(where+"applied") + `"}`,
		"example.org/api-token":                            secretly(where + "token"),
		"example.org/json":                                 `{"list":[{"password":"` + secretly(where+"json") + `"}]}`,
		"example.org/yaml":                                 "a: b\nclientSecret: |\n  " + secretly(where+"yaml") + "\n",
		"example.org/note":                                 "kept",
	}
}

// cluster is an API server with a secret in every place.
func cluster(t *testing.T) []client.Object {
	t.Helper()
	at := metav1.ObjectMeta{Namespace: "garden", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}
	named := func(name string) metav1.ObjectMeta {
		m := *at.DeepCopy()
		m.Name, m.UID, m.Annotations = name, types.UID("uid-of-"+name), secretAnnotations(name)
		m.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: secretly("managedfields"), Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}"),
		}}
		return m
	}
	m := fixture.Machine("workers-1", "workers")
	m.ObjectMeta = named("workers-1")
	m.Status.CurrentStatus.Phase = machinev1.MachineCrashLoopBackOff
	m.Status.LastOperation.Description = "create VM: refused, passwd: " + secretly("status")
	m.Status.Progress = &machinev1.Progress{Conditions: []metav1.Condition{{
		Type: machinev1.ConditionVMReady, Status: metav1.ConditionFalse, Reason: machinev1.ReasonCredentialsRefused,
		Message:            "create VM: the account says password=" + secretly("condition") + " is wrong",
		LastTransitionTime: metav1.NewTime(now),
	}}}
	node := &corev1.Node{ObjectMeta: named("node-1")}
	node.Namespace, node.UID, node.Status.Images = "", "", []corev1.ContainerImage{{Names: []string{"image-of-a-pod"}}}
	return append([]client.Object{
		m, node, class(named("workers")),
		&bootstrapv1.MCMConfig{ObjectMeta: named("blue-1")},
		&corev1.Event{
			ObjectMeta: named("event-1"), InvolvedObject: corev1.ObjectReference{UID: m.UID, Kind: "Machine", Name: m.Name},
			Message:       "failed with token " + secretly("spec") + ", secret_key: " + secretly("event"),
			LastTimestamp: metav1.NewTime(now),
		},
		&policyv1.PodDisruptionBudget{ObjectMeta: named("budget")},
		&corev1.Secret{ObjectMeta: named("boot"), StringData: map[string]string{"userData": secretly("secret")}},
		&corev1.ConfigMap{ObjectMeta: named("other"), Data: map[string]string{"x": secretly("configmap")}},
		kubeadm(),
	}, managed(named)...)
}

// class has secrets in its provider spec.
func class(m metav1.ObjectMeta) client.Object {
	c := fixture.MachineClass("workers", fixture.ProviderSpec(map[string]any{
		"instanceType": "small", "tags": []map[string]string{{"key": "join-token", "value": secretly("tag")}},
		"accessKey": secretly("spec"), "pin": map[string]any{"apiKey": 1234567890},
		"credentials": map[string]string{"user": secretly("user")},
		"userData":    "#cloud-config\n" + secretly("userdata"), "extra": encode("-----BEGIN KEY-----\n" + secretly("pem")),
		"zipped": encode("\x1f\x8b" + secretly("zipped")), "script": "#!/bin/sh\necho " + secretly("script"),
		"secretRef": map[string]string{"name": "workers-credentials"},
		"image":     "https://images.example/a?temp_url_sig=" + secretly("presigned") + "&temp_url_expires=1",
	}))
	c.ObjectMeta = m
	return c
}

// kubeadm is a KubeadmControlPlane, whose kind this program does not know.
func kubeadm() client.Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
		"metadata": map[string]any{"namespace": "garden", "name": "prod"},
		"spec": map[string]any{"kubeadmConfigSpec": map[string]any{
			"files":               []any{map[string]any{"path": "/etc/a", "content": secretly("kubeadmfile")}},
			"preKubeadmCommands":  []any{"echo " + secretly("kubeadmcommand")},
			"initConfiguration":   map[string]any{"bootstrapTokens": []any{map[string]any{"token": secretly("kubeadmtoken")}}},
			"users":               []any{map[string]any{"name": "admin", "passwd": secretly("kubeadmuser")}},
			"postKubeadmCommands": []any{"true"},
		}},
	}}
}

// managed is the Deployment of a manager with its Pod, and one of something else.
func managed(named func(string) metav1.ObjectMeta) []client.Object {
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "mcm"}}}
	pod.Spec.Containers = []corev1.Container{{
		Name: "manager", Image: "manager:v1",
		Args: []string{
			"--v=2", "--token=" + secretly("arg"), "--password", secretly("nextarg"), "--kubeconfig-secret-name=kept",
		},
		Env: []corev1.EnvVar{
			{Name: "AWS_SECRET_ACCESS_KEY", Value: secretly("env")},
			{Name: "PLAIN", Value: "Bearer " + secretly("envbearer")},
			{Name: "OTEL_EXPORTER_OTLP_HEADERS", Value: "x-team=" + secretly("otlpheaders")},
			{Name: "OTEL_EXPORTER_OTLP_TRACES_HEADERS", Value: "x-team=" + secretly("otlptracesheaders")},
			{Name: "REGION", Value: "region-of-it"},
		},
	}}
	d := &appsv1.Deployment{ObjectMeta: named("machine-controller-manager")}
	d.Spec.Selector, d.Spec.Template = &metav1.LabelSelector{MatchLabels: pod.Labels}, pod
	other := &appsv1.Deployment{ObjectMeta: named("shop")}
	p := &corev1.Pod{ObjectMeta: named("manager-1"), Spec: pod.Spec}
	p.Labels = pod.Labels
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "manager", RestartCount: 1}}
	return []client.Object{d, other, p}
}

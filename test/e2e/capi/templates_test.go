package capi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/azure"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/gcp"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/hetzner"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/kubevirt"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/openstack"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/gcptest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/vsphere"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// settings are values of the variables of all templates that have no default.
func settings() map[string]string {
	all := map[string]string{
		"CONTROL_PLANE_ENDPOINT_HOST": "192.0.2.1", "MACHINE_CLASS_NAME": "existing",
		"CONTROL_PLANE_MACHINE_CLASS_NAME": "existing-too", "CONTROL_PLANE_ZONE_1": "zone-a",
		"CONTROL_PLANE_ZONE_2": "zone-b", "CONTROL_PLANE_ZONE_3": "zone-c",
		"CONTROL_PLANE_CA_DATA": "Y2E=", "CONTROL_PLANE_CA_CERT_HASH": "sha256:0123",
		"SIM_ENDPOINT": "http://192.0.2.2:8484", "SIM_ACCOUNT_ID": "demo", "SIM_SECRET_KEY": "secret",
		"AWS_AMI": "ami-0123456789abcdef0", "AWS_REGION": "eu-west-1",
		"AWS_SUBNET_ID":         "subnet-0123456789abcdef0",
		"AWS_SECURITY_GROUP_ID": "sg-0123456789abcdef0", "AWS_IAM_INSTANCE_PROFILE": "nodes.example.com",
		"AWS_SSH_KEY_NAME":  "a-key",
		"AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": "a-key",
	}
	for _, name := range []string{
		"IMAGE_NAME", "REGION", "AVAILABILITY_ZONE", "FLAVOR_NAME", "SSH_KEY_NAME",
		"TENANT_NAME", "USERNAME", "PASSWORD",
	} {
		all["OPENSTACK_"+name] = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	}
	for _, name := range []string{
		"SECURITY_GROUP_ID", "IAM_INSTANCE_PROFILE", "SUBNET_ID_1", "SUBNET_ID_2", "SUBNET_ID_3",
	} {
		all["AWS_CONTROL_PLANE_"+name] = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	}
	all["AWS_BOOT_DATA_BUCKET"], all["AWS_API_SERVER_TARGET_GROUP_ARN"] = bootBucket, ec2test.GroupAPIServer
	for _, zone := range []string{"1", "2", "3"} {
		all["VSPHERE_CONTROL_PLANE_RESOURCE_POOL_"+zone] = "pool-" + zone
	}
	all["VSPHERE_CONTROL_PLANE_FOLDER"], all["OPENSTACK_API_SERVER_POOL_ID"] = "control-plane", apiServerPool
	all["KUBEVIRT_IMAGE_URL"], all["KUBEVIRT_STORAGE_CLASS"] = "https://images.example.com/linux.img", "standard"
	all["KUBEVIRT_SERVER"], all["KUBEVIRT_TOKEN"] = "https://192.0.2.4:6443", "a-token"
	all["OPENSTACK_NETWORK_ID"], all["OPENSTACK_AUTH_URL"] = "11f6f6a4-6d2c-4d0a-8c2b-0c9f5b8ad0f1", "https://192.0.2.3/v3"
	for _, name := range []string{
		"DATACENTER", "RESOURCE_POOL", "DATASTORE", "FOLDER", "TEMPLATE", "NETWORK", "SERVER",
		"USERNAME", "PASSWORD",
	} {
		all["VSPHERE_"+name] = strings.ToLower(name)
	}
	for _, name := range []string{
		"RESOURCE_GROUP", "VNET_NAME", "SUBNET_NAME", "SUBSCRIPTION_ID", "TENANT_ID", "CLIENT_ID", "CLIENT_SECRET",
	} {
		all["AZURE_"+name] = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	}
	const inGroup = "/subscriptions/s/resourceGroups/g/providers/"
	all["AZURE_LOCATION"], all["AZURE_ZONE"], all["AZURE_SSH_PUBLIC_KEY"] = "westeurope", "1", "ssh-rsa AAAA test"
	all["AZURE_IMAGE_ID"] = inGroup + "Microsoft.Compute/images/linux"
	all["AZURE_API_SERVER_POOL_ID"] = inGroup + "Microsoft.Network/loadBalancers/api/backendAddressPools/api"
	all["GCP_REGION"], all["GCP_ZONE"], all["GCP_SUBNETWORK"] = gcptest.Region, gcptest.Region+"-b", "nodes"
	all["GCP_IMAGE"] = "projects/my-project/global/images/family/linux"
	all["GCP_NODE_SERVICE_ACCOUNT"] = "nodes@my-project.iam.gserviceaccount.com"
	all["GCP_API_SERVER_INSTANCE_GROUP"] = gcptest.Group
	all["GCP_SERVICE_ACCOUNT_JSON"] = oneLine(gcptest.Key())
	all["HETZNER_LOCATION"], all["HETZNER_IMAGE_NAME"], all["HETZNER_NETWORK_NAME"] = "fsn1", "linux", "nodes"
	all["HETZNER_SSH_FINGERPRINT"], all["HETZNER_TOKEN"] = "b7:2f:30:a0:2f:6c:58:6c:21:04:58:61:ba:06:3b:2f", "a-token"
	return all
}

// settingsFor are the settings for a flavor: clouds name zones differently.
func settingsFor(flavor string) map[string]string {
	all := settings()
	zones := []string{"zone-a", "zone-b", "zone-c"}
	switch {
	case strings.HasPrefix(flavor, "azure"):
		zones = []string{"1", "2", "3"}
	case strings.HasPrefix(flavor, "gcp"):
		zones = []string{gcptest.Region + "-b", gcptest.Region + "-c", gcptest.Region + "-d"}
	case strings.HasPrefix(flavor, "hetzner"):
		zones = []string{"fsn1", "nbg1", "hel1"}
	}
	for i, zone := range zones {
		all[fmt.Sprintf("CONTROL_PLANE_ZONE_%d", i+1)] = zone
	}
	return all
}

// oneLine returns a JSON document without line breaks.
func oneLine(document []byte) string {
	var b bytes.Buffer
	if err := json.Compact(&b, document); err != nil {
		panic(err)
	}
	return b.String()
}

// A rendered is a template after clusterctl generate cluster.
type rendered []*unstructured.Unstructured

// pick returns the objects of a kind.
func (r rendered) pick(kind string) rendered {
	var found rendered
	for _, o := range r {
		if o.GetKind() == kind {
			found = append(found, o)
		}
	}
	return found
}

// generate renders a flavor with clusterctl.
func (m *management) generate(t *testing.T, ctl clusterctl, flavor, namespace, name string, variables map[string]string,
	more ...string,
) rendered {
	t.Helper()
	args := append([]string{
		"generate", "cluster", name, "--kubeconfig", m.Cluster.Kubeconfig(), "--infrastructure", "capmcm", "--flavor", flavor,
		"--target-namespace", namespace, "--kubernetes-version", "v1.36.3",
	}, more...)
	text := ctl.must(t, variables, args...)
	objects, err := cluster.Decode([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return objects
}

// checkTemplates renders each flavor, and has the API server take it as it would
// be applied, with every field known.
func checkTemplates(t *testing.T, m *management, ctl clusterctl) {
	t.Helper()
	const namespace = "templates"
	m.namespace(t, namespace)
	flavors := []string{
		"", "sim", "aws", "azure", "gcp", "hetzner", "kubevirt", "openstack", "vsphere", "topology", "topology-workers",
	}
	for _, cloud := range []string{"", "sim", "aws", "azure", "gcp", "hetzner", "kubevirt", "openstack", "vsphere"} {
		for _, what := range []string{"workers-only", "self-hosted", "autoscale", "health-check"} {
			flavors = append(flavors, strings.TrimPrefix(cloud+"-"+what, "-"))
		}
	}
	t.Run("AWS without keys", func(t *testing.T) { checkAmbient(t, m, ctl, namespace) })
	for _, flavor := range flavors {
		t.Run("flavor "+flavor, func(t *testing.T) {
			all := m.generate(t, ctl, flavor, namespace, "c1", settingsFor(flavor), "--control-plane-machine-count", "3",
				"--worker-machine-count", "2")
			for _, o := range all {
				err := m.cl.Create(t.Context(), o.DeepCopy(), client.DryRunAll,
					client.FieldValidation(metav1.FieldValidationStrict))
				if err != nil {
					t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
				}
			}
			checkAutoscale(t, flavor, all)
			checkClass(t, all)
			checkUserData(t, flavor, all)
		})
	}
}

// checkAmbient: on AWS the class's Secret can do without keys where the manager's own
// identity may be used, and only there.
func checkAmbient(t *testing.T, m *management, ctl clusterctl, namespace string) {
	t.Helper()
	variables := settings()
	delete(variables, "AWS_ACCESS_KEY_ID")
	delete(variables, "AWS_SECRET_ACCESS_KEY")
	all := m.generate(t, ctl, "aws-workers-only", namespace, "c1", variables, "--worker-machine-count", "2")
	credentials := cloud.Credentials{}
	for _, o := range all.pick("Secret") {
		for key, value := range as[corev1.Secret](t, o).StringData {
			if key != machinev1.UserDataKey {
				credentials[key] = []byte(value)
			}
		}
	}
	for _, ambient := range []bool{false, true} {
		problems := aws.NewDriver(aws.Options{Ambient: ambient}).CheckSecret(cloud.Class{}, credentials)
		if (len(problems) == 0) != ambient {
			t.Errorf("with ambient credentials %v: %v", ambient, problems)
		}
	}
}

// checkAutoscale: the autoscaler owns the replicas where it is to scale, and
// annotations of its own carry the bounds.
func checkAutoscale(t *testing.T, flavor string, all rendered) {
	t.Helper()
	for _, md := range all.pick("MachineDeployment") {
		_, fixed, _ := unstructured.NestedFieldNoCopy(md.Object, "spec", "replicas")
		bounds := len(md.GetAnnotations())
		if scaled := strings.Contains(flavor, "autoscale"); scaled == fixed || scaled != (bounds == 2) {
			t.Errorf("MachineDeployment has replicas: %v, %d annotations", fixed, bounds)
		}
	}
}

// checkClass: the drivers take what the templates make for them.
func checkClass(t *testing.T, all rendered) {
	t.Helper()
	drivers := map[string]cloud.Driver{
		"AWS": aws.NewDriver(aws.Options{}), "sim": sim.NewDriver(nil),
		"Azure": azure.NewDriver(azure.Options{}), "GCP": gcp.NewDriver(gcp.Options{Now: time.Now}),
		"Hetzner": hetzner.NewDriver(hetzner.Options{}), "kubevirt": kubevirt.NewDriver(time.Now, nil),
		"OpenStack": openstack.NewDriver(openstack.Options{}), "vsphere": vsphere.NewDriver(time.Now, nil),
	}
	for _, o := range all.pick("MachineClass") {
		c := as[machinev1.MachineClass](t, o)
		d, known := drivers[c.Provider]
		if !known {
			t.Errorf("class %s is of provider %q, which nobody is", c.Name, c.Provider)
			continue
		}
		parsed, problems := d.Parse(cloud.ClassInput{Name: c.Name, Namespace: c.Namespace, Spec: c.ProviderSpec.Raw})
		if len(problems) > 0 {
			t.Errorf("class %s of %s: %v", c.Name, c.Provider, problems)
		}
		for _, secret := range all.pick("Secret") {
			if secret.GetName() != c.SecretRef.Name {
				continue
			}
			credentials := cloud.Credentials{}
			for key, value := range as[corev1.Secret](t, secret).StringData {
				credentials[key] = []byte(value)
			}
			if problems := d.CheckSecret(parsed, credentials); len(problems) > 0 {
				t.Errorf("Secret %s of %s: %v", secret.GetName(), c.Provider, problems)
			}
		}
	}
}

// checkUserData: what is for us and for the shell is still there after clusterctl.
func checkUserData(t *testing.T, flavor string, all rendered) {
	t.Helper()
	for _, o := range all.pick("Secret") {
		data := as[corev1.Secret](t, o).StringData[machinev1.UserDataKey]
		if data == "" {
			continue
		}
		want := []string{machinev1.BootstrapTokenPlaceholder}
		if strings.HasPrefix(flavor, "aws") {
			want = append(want, `name: "{{ ds.meta_data.local_hostname }}"`)
		} else {
			want = append(want, machinev1.MachineNamePlaceholder)
		}
		if !strings.HasPrefix(flavor, "sim") {
			want = append(want, "attempt ${attempt} to join", `- "sha256:0123"`, `apiServerEndpoint: "192.0.2.1:6443"`,
				"- name: cloud-provider\n")
		}
		for _, w := range want {
			if !strings.Contains(data, w) {
				t.Errorf("user data has no %q:\n%s", w, data)
			}
		}
	}
}

func as[T any](t *testing.T, o *unstructured.Unstructured) T {
	t.Helper()
	var typed T
	text, err := json.Marshal(o.Object)
	if err == nil {
		err = json.Unmarshal(text, &typed)
	}
	if err != nil {
		t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return typed
}

func (m *management) namespace(t *testing.T, name string) {
	t.Helper()
	if err := m.cl.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
}

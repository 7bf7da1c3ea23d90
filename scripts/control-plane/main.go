// A control plane of Kubernetes in one program, for tests: etcd | kube-apiserver | controllers (of jobs and stateful sets only, and a loop
// that binds pods to the node `proc-node` in place of a scheduler).
package main

import (
	"context"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/etcdmain"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/statefulset"
)

func main() {
	cmd := os.Args[1]
	os.Args = append([]string{cmd}, os.Args[2:]...)
	switch cmd {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "controllers":
		ctx := context.Background()
		cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
		if err != nil {
			panic(err)
		}
		cfg.QPS, cfg.Burst = 200, 400
		c := kubernetes.NewForConfigOrDie(cfg)
		f := informers.NewSharedInformerFactory(c, 10*time.Minute)
		jc, err := job.NewController(ctx, c, f.Core().V1().Pods(), f.Batch().V1().Jobs(), nil, nil)
		if err != nil {
			panic(err)
		}
		sc := statefulset.NewStatefulSetController(ctx, f.Core().V1().Pods(), f.Apps().V1().StatefulSets(), f.Core().V1().PersistentVolumeClaims(), f.Apps().V1().ControllerRevisions(), c)
		f.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
			if p := o.(*v1.Pod); p.Spec.NodeName == "" {
				c.CoreV1().Pods(p.Namespace).Bind(ctx, &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: v1.ObjectReference{Kind: "Node", Name: "proc-node"}}, metav1.CreateOptions{})
			}
		}})
		f.Start(ctx.Done())
		go sc.Run(ctx, 2)
		jc.Run(ctx, 2)
	}
}

package storage
import ("testing";"fmt";"time";"github.com/cockroachdb/pebble/v2/vfs";"crypto/rsa";"crypto/rand";"crypto/sha512";"crypto";"sync";"syscall")
var lastU, lastS time.Duration
func cpuNow() time.Duration { var u syscall.Rusage; syscall.Getrusage(0,&u); fmt.Printf(" u %v s %v\n", (time.Duration(u.Utime.Nano())-lastU)/400, (time.Duration(u.Stime.Nano())-lastS)/400); lastU,lastS=time.Duration(u.Utime.Nano()),time.Duration(u.Stime.Nano()); return time.Duration(u.Utime.Nano()+u.Stime.Nano()) }
func TestZZ(t *testing.T){
 key,_:=rsa.GenerateKey(rand.Reader,2048)
 data:=randomData()
 sem:=make(chan bool,2)
 sign:=func(){ sem<-true; h:=sha512.Sum512(data); rsa.SignPKCS1v15(nil,key,crypto.SHA512,h[:]); <-sem }
 run:=func(clients int,N uint64,f func(n uint64)) (time.Duration,time.Duration){ var wg sync.WaitGroup; c0,t0:=cpuNow(),time.Now()
  for w:=uint64(0);w<uint64(clients);w++{ wg.Go(func(){ for n:=w;n<N;n+=uint64(clients){f(n)}})}
  wg.Wait(); return (time.Since(t0)/time.Duration(N)),(cpuNow()-c0)/time.Duration(N)}
 for _,cfg:=range [][2]int{{1,1}} {
  o:=options(vfs.Default); o.Now=time.Now; d:=t.TempDir(); o.Dir=d+"/s"; o.MarkPath=d+"/m"
  if err:=Create(o);err!=nil{t.Fatal(err)}
  s,err:=Open(o); if err!=nil{t.Fatal(err)}
  var sumA,sumB,cA,cB time.Duration; var base uint64
  for round:=0;round<6;round++{
   a,ca:=run(cfg[0],400,func(n uint64){sign()}); sumA+=a;cA+=ca
   b,cb:=run(cfg[0],400,func(n uint64){ n+=base; _,err:=s.Append(ctx,Keys{Series:fmt.Sprint(n%uint64(cfg[1])),Idempotency:idemOf(n)},func(slot Slot)(Draft,error){sign();return benchDraft(n,slot,data),nil}); if err!=nil{t.Error(err)}}); sumB+=b;cB+=cb
   base+=400
  }
  fmt.Printf("%v bare %v cpu %v | append %v cpu %v | thr ratio %.2f cpu ratio %.2f  marks/doc %.2f\n",cfg,sumA/6,cA/6,sumB/6,cB/6,float64(sumA)/float64(sumB),float64(cB)/float64(cA), float64(s.mark.file.generation)/2400)
  sound(t,s)
 }
}

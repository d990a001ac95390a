package storage
import ("testing";"fmt";"time";"github.com/cockroachdb/pebble/v2/vfs";"github.com/cockroachdb/pebble/v2";"os")
func TestZZ(t *testing.T){
 b:=&testing.B{}
 _ = b
 o:=options(vfs.NewMem()); o.Now=time.Now
 if os.Getenv("ZZDIR")!="" { o.FS=vfs.Default; o.Dir=os.Getenv("ZZDIR")+"/store"; o.MarkPath=os.Getenv("ZZDIR")+"/mark" }
 if err:=Create(o);err!=nil{t.Fatal(err)}
 s,err:=Open(o); if err!=nil{t.Fatal(err)}
 data:=randomData()
 N:=uint64(30000)
 done:=make(chan bool)
 for w:=uint64(0);w<16;w++{ go func(){ defer func(){done<-true}()
 for n:=w;n<N;n+=16{
  _,err:=s.Append(ctx,Keys{Series:fmt.Sprint(n%8),Idempotency:idemOf(n)},func(slot Slot)(Draft,error){return benchDraft(n,slot,data),nil})
  if err!=nil{t.Error(err);return}
  _,err=s.Advance(ctx,code(n),fresh,Change{To:2,Parts:[]Part{{"answer",data[:500]}}})
  if err!=nil{t.Error(err);return}
 }}()}
 for range 16 {<-done}
 m:=s.db.Metrics()
 fmt.Println(m.String())
 fmt.Println("write amp", m.Total().WriteAmp())
 var mm pebble.Metrics; _ = mm
 start:=time.Now()
 if err:=s.Close();err!=nil{t.Fatal(err)}
 fmt.Println("close",time.Since(start)); start=time.Now()
 s,err=Open(o); if err!=nil{t.Fatal(err)}
 fmt.Println("open",time.Since(start)); start=time.Now()
 r,err:=s.Fsck(ctx); fmt.Println("fsck",time.Since(start),r.Documents,r.Problems,err)
 s.Close()
}

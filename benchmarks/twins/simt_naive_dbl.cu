// The hand-written twin of examples/09_matmul_double_buffered.py: C = A * B^T in fp32, A (M, K), B (N, K), C (M, N), all
// column-major, extents multiples of the 128x128x8 tile.  Kernel k(A, B, C, M, N, K), grid (M/128)(N/128), 256 threads,
// static shared memory; compile with -arch=sm_90a -std=c++17, no headers.  Two stages of
// shared memory; the operands of the next k are loaded before the products of this one.
//   -DAX -DAY threads along M and N; -DVEC elements per cp.async; -DPAD elements after each column

typedef unsigned int u32;
__device__ __forceinline__ u32 sptr(const void*p){return (u32)__cvta_generic_to_shared(p);}
template<int N> __device__ __forceinline__ void cpa(u32 d,const void*s){
  if constexpr(N==16) asm volatile("cp.async.cg.shared.global [%0],[%1],16;"::"r"(d),"l"(s):"memory");
  else asm volatile("cp.async.ca.shared.global [%0],[%1],%2;"::"r"(d),"l"(s),"n"(N):"memory");}
__device__ __forceinline__ void commit(){asm volatile("cp.async.commit_group;":::"memory");}
template<int N> __device__ __forceinline__ void waitg(){asm volatile("cp.async.wait_group %0;"::"n"(N):"memory");}

#ifndef AX
#define AX 32
#define AY 8
#endif
#ifndef VEC
#define VEC 2
#define PAD 2
#endif
#define LD (128+PAD)
#define TI (128/AX)
#define TJ (128/AY)
extern "C" __global__ void __launch_bounds__(256) k(const float*__restrict__ A,const float*__restrict__ B,float*__restrict__ C,int M,int N,int K){
  const int t=threadIdx.x, tx=t%32, ty=t/32, tm=t%AX, tn=t/AX; const int nb=M/128;
  const int m0=(blockIdx.x%nb)*128, n0=(blockIdx.x/nb)*128; const int KT=K/8;
  float acc[TI][TJ];
  #pragma unroll
  for(int i=0;i<TI;i++)
  #pragma unroll
  for(int j=0;j<TJ;j++)acc[i][j]=0.f;
  __shared__ __align__(16) float sA[2*8*LD],sB[2*8*LD];
  auto load=[&](float*a,float*b,int kt){
    #pragma unroll
    for(int i=0;i<128/32/VEC;i++){int m=(tx+32*i)*VEC;
      cpa<4*VEC>(sptr(a+ty*LD+m),A+(size_t)(kt*8+ty)*M+m0+m);
      cpa<4*VEC>(sptr(b+ty*LD+m),B+(size_t)(kt*8+ty)*N+n0+m);} };

  load(sA,sB,0); commit();
  float fa[2][TI],fb[2][TJ]; int rd=0,wr=1;
  auto lf=[&](int k,int d,int s){
      #pragma unroll
      for(int i=0;i<TI;i++)fa[d][i]=sA[(s*8+k)*LD+tm+AX*i];
      #pragma unroll
      for(int j=0;j<TJ;j++)fb[d][j]=sB[(s*8+k)*LD+tn+AY*j]; };
  waitg<0>(); __syncthreads(); lf(0,0,0);
  int rs=0;
  for(int kt=0;kt<KT;kt++){
    #pragma unroll
    for(int k=0;k<8;k++){
      if(k==7){waitg<0>(); __syncthreads(); rs=rd;}
      lf((k+1)%8,(k+1)&1,rs);
      if(k==0&&kt+1<KT){ load(sA+wr*8*LD,sB+wr*8*LD,kt+1); commit(); int x=rd;rd=wr;wr=x; }
      #pragma unroll
      for(int i=0;i<TI;i++)
      #pragma unroll
      for(int j=0;j<TJ;j++) acc[i][j]+=fa[k&1][i]*fb[k&1][j];
    }
  }
  #pragma unroll
  for(int j=0;j<TJ;j++)
  #pragma unroll
  for(int i=0;i<TI;i++) C[(size_t)(n0+tn+AY*j)*M+m0+tm+AX*i]=acc[i][j];
}

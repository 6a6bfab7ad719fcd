"""English words for Chinese ones, so that a question in Chinese finds code written in English.

The terms are those of programming in general. A question may also contain identifiers and English
words, which stay as they are.
"""

from __future__ import annotations

_TERMS = """
重试 retry; 超时 timeout; 缓存 cache; 取消 cancel; 连接 connect connection; 断开 disconnect close;
关闭 close shutdown; 打开 open; 读取 read; 写入 write; 读 read; 写 write; 文件 file; 文件夹 folder directory;
目录 directory folder; 路径 path; 链接 link url; 符号链接 symlink; 请求 request; 响应 response; 返回 return;
发送 send; 接收 receive; 解析 parse; 解码 decode; 编码 encode encoding; 序列化 serialize; 反序列化 deserialize;
转换 convert; 格式化 format; 格式 format; 渲染 render; 显示 show display; 打印 print; 输出 output; 输入 input;
错误 error; 异常 exception error; 警告 warning; 日志 log logging; 调试 debug; 测试 test; 断言 assert;
配置 config settings; 设置 set settings; 选项 option; 参数 argument parameter; 默认 default; 命令行 command line;
命令 command; 子命令 subcommand; 帮助 help; 用户 user; 密码 password; 登录 login; 认证 authentication auth;
授权 authorization; 权限 permission; 令牌 token; 密钥 key secret; 加密 encrypt; 解密 decrypt; 签名 signature sign;
证书 certificate; 安全 secure security; 验证 validate verify; 校验 check validate; 检查 check; 检测 detect;
查找 find search; 搜索 search; 查询 query; 匹配 match; 替换 replace; 删除 delete remove; 移除 remove;
添加 add; 插入 insert; 更新 update; 修改 modify change; 创建 create make; 生成 generate; 构建 build; 编译 compile;
初始化 initialize init; 启动 start; 停止 stop; 暂停 pause; 恢复 resume restore; 运行 run; 执行 execute run;
调用 call invoke; 回调 callback; 等待 wait; 通知 notify; 事件 event; 事件循环 event loop; 监听 listen;
订阅 subscribe; 发布 publish; 消息 message; 队列 queue; 栈 stack; 堆 heap; 列表 list; 字典 dict mapping;
集合 set; 数组 array; 元组 tuple; 字符串 string str; 字符 character char; 字节 bytes byte; 数字 number; 整数 integer int;
浮点 float; 布尔 bool; 空 empty none; 日期 date; 时间 time; 时区 timezone; 时间戳 timestamp; 定时 timer schedule;
调度 schedule; 任务 task; 线程 thread; 进程 process; 子进程 subprocess child process; 协程 coroutine; 异步 async;
同步 sync synchronous; 并发 concurrent; 并行 parallel; 锁 lock; 信号量 semaphore; 信号 signal; 中断 interrupt;
死锁 deadlock; 限制 limit; 容量 capacity; 最大 max maximum; 最小 min minimum; 大小 size; 长度 length; 宽度 width;
高度 height; 数量 count number; 计数 count; 计算 compute calculate; 求和 sum; 平均 average mean; 排序 sort order;
过滤 filter; 分组 group; 合并 merge join; 拆分 split; 分割 split; 连接字符串 join; 截断 truncate; 裁剪 crop trim;
填充 pad fill; 对齐 align; 换行 wrap newline; 缩进 indent; 颜色 color; 样式 style; 主题 theme; 终端 terminal;
控制台 console; 光标 cursor; 表格 table; 单元格 cell; 行 line row; 列 column; 边框 border box; 标题 title heading;
进度条 progress bar; 进度 progress; 树 tree; 节点 node; 图 graph; 图像 image; 图片 image; 面板 panel; 布局 layout;
语法高亮 syntax highlight; 高亮 highlight; 表达式 expression; 正则 regex pattern; 正则表达式 regular expression regex;
变量 variable; 函数 function; 方法 method; 类 class; 对象 object; 实例 instance; 接口 interface; 模块 module;
导入 import; 包 package; 依赖 dependency; 版本 version; 插件 plugin; 钩子 hook; 装饰器 decorator; 注册 register;
迭代器 iterator; 迭代 iterate; 生成器 generator; 上下文 context; 上下文管理器 context manager; 作用域 scope;
属性 attribute property; 字段 field; 类型 type; 注解 annotation; 泛型 generic; 继承 inherit; 递归 recursive;
循环 loop; 条件 condition; 比较 compare; 相等 equal; 哈希 hash; 校验和 checksum; 压缩 compress; 解压 decompress extract;
下载 download; 上传 upload; 复制 copy; 移动 move; 重命名 rename; 备份 backup; 临时 temporary temp; 清理 cleanup clean;
清除 clear; 释放 release free; 资源 resource; 内存 memory; 磁盘 disk; 泄漏 leak; 网络 network; 套接字 socket;
端口 port; 地址 address; 主机 host hostname; 域名 domain hostname; 代理 proxy; 服务器 server; 客户端 client;
重定向 redirect; 会话 session; 头 header; 头部 header; 请求头 request header; 正文 body; 流 stream; 流式 stream streaming;
缓冲 buffer; 管道 pipe; 分块 chunk; 块 block chunk; 路由 route router; 中间件 middleware; 模板 template; 静态 static;
数据库 database; 事务 transaction; 提交 commit; 回滚 rollback; 索引 index; 表 table; 记录 record; 键 key; 值 value;
主键 primary key; 迁移 migration migrate; 仓库 repository; 分支 branch; 差异 diff; 补丁 patch; 冲突 conflict;
环境变量 environment variable environ; 环境 environment; 系统 system; 平台 platform; 操作系统 operating system os;
随机 random; 唯一 unique; 重复 duplicate repeat; 失败 fail failure; 成功 success; 忽略 ignore; 跳过 skip;
允许 allow; 拒绝 deny reject refuse; 禁止 forbid disable; 启用 enable; 禁用 disable; 支持 support; 状态 state status;
原因 reason cause; 次数 count times; 之前 before; 之后 after; 第一个 first; 最后 last; 全部 all; 多个 multiple;
单个 single; 嵌套 nested; 父 parent; 子 child; 根 root; 范围 range; 区间 interval range; 位置 position location;
偏移 offset; 名称 name; 名字 name; 标识符 identifier id; 文本 text; 文档 document documentation; 注释 comment;
源代码 source code; 代码 code; 脚本 script; 字体 font; 鼠标 mouse; 键盘 keyboard key; 按键 key press; 窗口 window;
按钮 button; 菜单 menu; 提示 prompt hint; 确认 confirm; 选择 select choose; 收集 collect; 报告 report; 统计 statistics count;
跟踪 trace track; 堆栈 traceback stack; 回溯 traceback; 捕获 catch capture; 抛出 raise throw; 处理 handle process;
传递 pass; 传输 transport transfer; 协议 protocol; 握手 handshake; 心跳 heartbeat ping; 重连 reconnect;
负载均衡 load balance; 限流 rate limit throttle; 退避 backoff; 延迟 delay latency; 睡眠 sleep; 截止 deadline;
优先级 priority; 权重 weight; 分数 score; 估计 estimate; 剩余 remaining; 速度 speed; 速率 rate; 百分比 percent percentage;
单位 unit; 精度 precision; 四舍五入 round; 表情 emoji; 宽字符 wide character cell width; 中文 chinese cjk; 语言 language;
翻译 translate; 本地化 locale localization; 查看 view inspect; 遍历 walk traverse iterate; 展开 expand; 折叠 collapse fold;
包装 wrap; 绑定 bind; 映射 map mapping; 引用 reference; 弱引用 weakref; 垃圾回收 garbage collect gc; 快照 snapshot;
夹具 fixture; 标记 mark marker; 参数化 parametrize; 模拟 mock simulate; 猴子补丁 monkeypatch; 覆盖 override cover;
子类 subclass; 抽象 abstract; 私有 private; 公开 public; 工厂 factory; 单例 singleton; 适配器 adapter; 观察者 observer
"""


def _read_terms() -> dict[str, str]:
    terms = dict[str, str]()
    for line in _TERMS.replace("\n", " ").split(";"):
        chinese, _, english = line.strip().partition(" ")
        terms[chinese] = english
    return terms


_ENGLISH = _read_terms()
_LONGEST = max(map(len, _ENGLISH))


def translate(run: str) -> list[str]:
    """Return English words for the terms in a run of Chinese characters."""
    words = list[str]()
    start = 0
    while start < len(run):
        for size in range(min(_LONGEST, len(run) - start), 0, -1):
            english = _ENGLISH.get(run[start : start + size])
            if english is not None:
                words += english.split()
                start += size
                break
        else:
            start += 1
    return words
